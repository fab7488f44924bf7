"""Prints the table of clients, and writes it as Markdown. The status is 0 if nothing failed and every
client that was asked for has rows.

    python table.py ROWS RESULTS.md CLIENT=VERSION...
"""
import datetime
import sys

path, to = sys.argv[1:3]
versions = dict(a.split("=", 1) for a in sys.argv[3:])
try:
    rows = [line.rstrip("\n").split("\t") for line in open(path)]
except FileNotFoundError:
    rows = []
for client in versions:
    if all(r[0] != client for r in rows):
        rows.append([client, "has rows", "FAILED", "nothing was tried"])

width = [max(len(r[i]) for r in rows) for i in range(3)]
for client, name, result, note in rows:
    print(f"{client:{width[0]}}  {name:{width[1]}}  {result:{width[2]}}  {note}")
failed = [r for r in rows if r[2] != "ok"]

with open(to, "w") as f:
    f.write(f"# Other people's clients against Symphony, {datetime.date.today()}\n\n`make test-clients`\n\n")
    f.write("| client | checks | failed |\n|---|---|---|\n")
    for client, version in versions.items():
        mine = [r for r in rows if r[0] == client]
        f.write(f"| {client} {version} | {len(mine)} | {sum(r[2] != 'ok' for r in mine)} |\n")
    f.write("\n| client | check | result | |\n|---|---|---|---|\n")
    for r in rows:
        f.write("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |\n")
print(f"{len(rows)} checks of {len(versions)} clients, {len(failed)} failed: {to}")
sys.exit(1 if failed else 0)
