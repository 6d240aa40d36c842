"""Writes docs/rules.md: the rewrite rules, their conditions, and what they save.

python -m tools.rules                 print the page
python -m tools.rules --write         write it
python -m tools.rules --witnesses     measure the examples anew (minutes), and write record and page
python -m tools.rules --zoo PYTHON    measure the zoo's programs in an environment that has their
                                      packages (an hour or two), and write record and page
python -m tools.rules --zoo PYTHON mctx_muzero pgx_go    some of them; the others stay in the record
"""

from __future__ import annotations

import sys
from pathlib import Path

from hlo2onnx.raising.rules import RULES
from tools import command_line
from tools.rules.page import PAGE, page, witness_of
from tools.rules.record import RECORD, load, matters, measure_examples, measure_zoo, save


def main() -> int:
    parser = command_line("rules", __doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--witnesses", action="store_true", help="measure the examples")
    parser.add_argument("--zoo", type=Path, metavar="PYTHON", help="measure the zoo there")
    parser.add_argument("programs", nargs="*", help="of the zoo; all by default")
    arguments = parser.parse_args()
    record = load()
    if arguments.witnesses:
        measure_examples(record["examples"])
        save(record)
    if arguments.zoo:
        zoo = record["zoo"]
        for _ in measure_zoo(zoo, arguments.zoo, record["examples"], arguments.programs):
            save(record)
    if arguments.write or arguments.witnesses or arguments.zoo:
        PAGE.write_text(page(), encoding="utf-8")
        print(f"wrote {PAGE.name}; rules without a witness in {RECORD.name}:")
        print(*_without_witness(), sep="\n")
    else:
        print(page())
    return 0


def _without_witness() -> list[str]:
    record = load()
    found = {rule.name: witness_of(rule.name, record) for rule in RULES}
    return [name for name, item in found.items() if item is None or not matters(item[1])]


if __name__ == "__main__":
    sys.exit(main())
