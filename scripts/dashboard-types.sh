#!/usr/bin/env bash
# The dashboards of deploy/monitoring against the types that Grafana publishes (npm: @grafana/schema): each field is
# one that it knows, with a value that it takes. Needs node and npm; what it fetches is below build.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v npm >/dev/null || { echo 'no npm: the types of the dashboards are not looked at'; exit 0; }
into=build/grafana-schema
mkdir -p "$into"
pins=(@grafana/schema@13.2.3 typescript@7.0.2)
for pin in "${pins[@]}"; do # what an earlier run fetched may be of another version
  grep -qsF "\"version\": \"${pin##*@}\"" "$into/node_modules/${pin%@*}/package.json" && continue
  npm install --prefix "$into" --silent --no-audit --no-fund "${pins[@]}"
  break
done
node - "$into" deploy/monitoring/grafana-*.json <<'JS'
const fs = require("fs"), path = require("path");
const [into, ...files] = process.argv.slice(2);
const out = [`import type { Dashboard } from "@grafana/schema";
import type { Options, FieldConfig } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
type Loose<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Loose<U>[] : T extends object ? { [K in keyof T]: Loose<T[K]> } : T; // names of enums as texts`];
files.forEach((file, i) => {
  const text = fs.readFileSync(file, "utf8"), doc = JSON.parse(text);
  out.push(`// ${path.basename(file)}`, `export const dashboard${i}: Loose<Dashboard> = ${text};`);
  doc.panels.forEach((p) => {
    if (p.type === "row") return;
    if (p.type !== "timeseries") throw new Error(`${file}: ${p.title}: the types of a ${p.type} are not known here`);
    out.push(`export const options${i}_${p.id}: Loose<Options> = ${JSON.stringify(p.options)};`, `export const custom${i}_${p.id}: Loose<FieldConfig> = ${JSON.stringify(p.fieldConfig.defaults.custom)};`);
  });
});
fs.writeFileSync(path.join(into, "dashboards.ts"), out.join("\n") + "\n");
JS
(cd "$into" && node_modules/.bin/tsc --noEmit --strict --skipLibCheck --target es2022 --module nodenext --moduleResolution nodenext dashboards.ts)
echo "the dashboards are of Grafana's types (@grafana/schema $(node -p "require('./$into/node_modules/@grafana/schema/package.json').version"))"
