"""`python -m tests.conformance [-v] [FILE...]`: replay corpus files and print matched/total per family.

Without FILE the project's own corpus is replayed. Exits 1 on any mismatch; -v shows the first ones.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.cases import CORPUS, family, read_cases
from tests.conformance.replay import differences
from tests.conformance.selectors import tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="a corpus file (.jsonl or .jsonl.gz)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the first differences")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="how many cases -v shows (5)")
    parser.add_argument("--family", help="replay only this family")
    parser.add_argument("--id", help="replay only this case")
    options = parser.parse_args()
    # Hints that fail are part of the corpus; their log lines are not part of the answer.
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    shown = 0
    selectors: Counter[str] = Counter()
    for path in options.files or sorted(CORPUS.glob("*.jsonl.gz")):
        if not path.exists():
            parser.error(f"{path} does not exist")
        for case in read_cases(path):
            name = family(case)
            if options.family not in (None, name) or options.id not in (None, case["id"]):
                continue
            total[name] += 1
            found = differences(case)
            if case["kind"] == "cel":
                selectors += tally(case)
            matched[name] += not found
            if found and options.verbose and shown < options.show:
                shown += 1
                print(f"{case['id']}:")
                for line in found[:12]:
                    print(f"  {line}")
        if sys.stderr.isatty():
            print(f"{path.name}: {sum(total.values())} cases so far", file=sys.stderr)
    for name in total:
        print(f"{name}: {matched[name]}/{total[name]}")
    if selectors:
        print(f"cel answers: {selectors['answers']}/{selectors['expressions']}")
        for what in ("texts", "costs"):
            print(f"cel {what}, for information: {selectors[f'equal {what}']}/{selectors[what]}")
    print(f"total: {sum(matched.values())}/{sum(total.values())}")
    return 0 if matched == total and total else 1


if __name__ == "__main__":
    sys.exit(main())
