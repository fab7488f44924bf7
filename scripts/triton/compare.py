"""In what two answers differ, and which of the differences have a reason."""
import re
import tomllib

# Of these only the type is compared: times, and why a model is not there.
LOOSE = {"ns", "last_inference", "reason"}
SHOWN = 60  # letters of a value in a difference


def differences(ours, theirs):
    """Each difference as "where: ours | Triton's". A refusal of ours must say why; the texts are not compared."""
    if ours.status != theirs.status:
        found = ["status: %s | %s" % (ours.status, theirs.status)]
    else:
        found = []
    if ours.error and not (isinstance(ours.body, dict) and isinstance(ours.body.get("error"), str) and ours.body["error"]):
        found.append("error: ours has no text")
    if ours.error or theirs.error:
        return found
    if ours.kind != theirs.kind:
        found.append("type: %s | %s" % (ours.kind, theirs.kind))
    compare("body", ours.body, theirs.body, found)
    return found


def compare(at, ours, theirs, found):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            where = at + "." + key
            if key not in theirs:
                found.append("%s: only ours" % where)
            elif key not in ours:
                found.append("%s: only Triton's" % where)
            elif key in LOOSE:
                if type(ours[key]) is not type(theirs[key]):
                    found.append("%s: %s | %s" % (where, type(ours[key]).__name__, type(theirs[key]).__name__))
            else:
                compare(where, ours[key], theirs[key], found)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (o, t) in enumerate(zip(ours, theirs)):
            compare("%s.%d" % (at, i), o, t, found)
    elif type(ours) is not type(theirs) and not numbers(ours, theirs) or ours != theirs and not (ours != ours and theirs != theirs):
        found.append("%s: %s | %s" % (at, shown(ours), shown(theirs)))


def numbers(a, b):
    """1 and 1.0 are the same number in JSON."""
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))


def shown(v):
    text = repr(v)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def matches(pattern, text):
    """In a pattern * stands for anything, all else for itself."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None


class Reasons:
    """reasons.toml: why answers differ. Each is for cases and differences, both patterns. additions: those
    by which ours only says more."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.all = tomllib.load(f)["reason"]
        for r in self.all:
            if r.get("addition") and not all(p.endswith(": only ours") for p in r["differences"]):
                raise ValueError("%s: an addition is only ours: %s" % (r["why"], r["differences"]))
        self.additions = {r["why"] for r in self.all if r.get("addition")}
        self.used = [set() for _ in self.all]

    def of(self, case, difference):
        """The reason of a difference; None: it has none."""
        for r, used in zip(self.all, self.used):
            cases = [p for p in r["cases"] if matches(p, case)]
            places = [p for p in r["differences"] if matches(p, difference)]
            if cases and places:
                used.update(("cases", p) for p in cases)
                used.update(("differences", p) for p in places)
                return r["why"]
        return None

    def unused(self):
        """Patterns that no difference has needed."""
        return ["%s: %s: %s" % (r["why"][:50], key, p) for r, used in zip(self.all, self.used)
                for key in ("cases", "differences") for p in r[key] if (key, p) not in used]
