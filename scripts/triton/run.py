"""Symphony beside a real Triton: the same requests to both, and their answers compared (make test-triton).

    python run.py VENV BINARY ONNXRUNTIME FOLDER [PATTERN]

VENV has nvidia-pytriton and tritonclient. The table is written to FOLDER/results.md. With PATTERN only the
cases that it matches are sent. The status is 0 if each difference has a reason in reasons.toml, and each
reason its difference.
"""
import collections
import datetime
import os
import signal
import sys

import answers
import cases
import compare
import servers
import cases_http  # noqa: F401, as the following: they fill cases.ALL
import cases_infer  # noqa: F401
import cases_grpc  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    venv, binary, onnxruntime, folder = (os.path.abspath(p) for p in sys.argv[1:5])
    pattern = sys.argv[5] if len(sys.argv) > 5 else "*"
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with open("/dev/shm" + cases.KEY, "wb") as f:
            f.write(answers.floats(*cases.A, *cases.B).ljust(256, b"\0"))
        started.append(servers.symphony(os.path.join(folder, "symphony"), binary, onnxruntime))
        started.append(servers.triton(os.path.join(folder, "triton"), venv, cases.KEY[1:] + "-backend"))
        for server in started:
            server.await_ready()
            server.calls = answers.Calls(server)
        servers.add_spare(started[0], binary, os.path.join(folder, "symphony"))
        return report(run(started, pattern), pattern, folder)
    finally:
        for server in started:
            server.stop()
        servers.left_behind("/dev/shm" + cases.KEY)


HEAD = """# Beside Triton, answer by answer

Written by `make test-triton KEEP=1` (scripts/triton). The same requests, good and bad, go to Symphony and to a real Triton 2.51 (of
nvidia-pytriton, on CPUs) over HTTP and gRPC. Both have the same models: sums and differences, identities of all types, and slow ones;
Triton's are Python, Symphony's ONNX files. Compared are the status, the type of the content, and the body: which fields there
are, and their values, but for times and the words of refusals. A difference needs a reason in scripts/triton/reasons.toml.

%d requests. %d answers are the same, and %d with our parameters (queue_us to slack_us, batch_size, gpu); %d differ otherwise. %s."""


class Row:
    """A case with both answers and what is to say of them."""

    def __init__(self, name, ours, theirs):
        self.name, self.ours, self.theirs = name, ours, theirs
        self.found = compare.differences(ours, theirs)


def run(both, pattern):
    rows = []
    for name, send in cases.ALL:
        if compare.matches(pattern, name):
            ours, theirs = (send(server) for server in both)
            rows.append(Row(name, ours, theirs))
            for server in both:
                if server.process.poll() is not None:
                    raise SystemExit("%s has ended after %r:\n%s" % (server.name, name, server.said()))
    return rows


def report(rows, pattern, folder):
    reasons = compare.Reasons(os.path.join(HERE, "reasons.toml"))
    explained, wrong = [], []
    for row in rows:
        whys = {d: reasons.of(row.name, d) for d in row.found}
        explained.append((row, whys))
        wrong += ["%s: %s: no reason" % (row.name, d) for d, why in whys.items() if why is None]
    if pattern == "*":
        wrong += ["a reason without a difference: " + p for p in reasons.unused()]
    with open(os.path.join(folder, "results.md"), "w") as f:
        f.write(table(explained, reasons.additions))
    of = collections.Counter(kind(w, reasons.additions) for _, w in explained)
    for line in wrong:
        print(line)
    print("%d requests to both: %d answers are the same, %d with our parameters, %d differ for a reason, %d without one; %d things are wrong. %s" % (
        len(rows), of[SAME], of[ADDED], of[DIFFERS], of[WRONG], len(wrong), os.path.join(folder, "results.md")))
    return 1 if wrong else 0


SAME, ADDED, DIFFERS, WRONG = "same", "same, with our parameters", "differs", "differs without a reason"


def kind(whys, additions):
    """What an answer is, by the reasons of its differences."""
    if None in whys.values():
        return WRONG
    return DIFFERS if set(whys.values()) - additions else ADDED if whys else SAME


def table(explained, additions):
    """The rows in Markdown, reasons as numbers that are told below. additions: the reasons that are for those."""
    of_kind = collections.Counter(kind(of, additions) for _, of in explained)
    whys = list(dict.fromkeys(why for _, of in explained for why in of.values() if why))
    lines = [HEAD % (len(explained), of_kind[SAME], of_kind[ADDED], of_kind[DIFFERS] + of_kind[WRONG], datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")), "",
             "| case | ours | Triton's | |", "|---|---|---|---|"]
    for row, of in explained:
        marks = sorted({whys.index(w) + 1 if w else 0 for w in of.values() if w not in additions})
        says = kind(of, additions) if not marks else "differs: " + ", ".join("**no reason**" if m == 0 else "reason %d" % m for m in marks)
        lines.append("| %s | %s | %s | %s |" % tuple(cell(t) for t in (row.name, brief(row.ours), brief(row.theirs), says)))
    lines += ["", "The reasons, and what differs:", ""]
    for i, why in enumerate(whys):
        found = sorted({d for _, of in explained for d, w in of.items() if w == why})
        lines.append("%d. %s (%d cases)" % (i + 1, why, sum(why in of.values() for _, of in explained)))
        lines += ["   - `%s`" % d for d in found[:12]] + (["   - and %d more" % (len(found) - 12)] if len(found) > 12 else [])
    return "\n".join(lines) + "\n"


def brief(answer):
    text = answer.body.get("error", "") if answer.error and isinstance(answer.body, dict) else ""
    return "%s %s" % (answer.status, text.replace("\n", " ")[:90])


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").strip()


if __name__ == "__main__":
    sys.exit(main())
