#!/usr/bin/env python3
"""Makes the part of breccia's C API that has RocksDB's shapes, from rocksdb/c.h as installed.

    tools/c_api.py HEADER --out DIR       write DIR/include/breccia/c_rocksdb.h, DIR/forward.c
    tools/c_api.py HEADER --table FILE    write the table of functions into FILE
    tools/c_api.py HEADER --check FILE    exit 1 unless the table in FILE is that one

tools/c_api.toml says which functions are written by hand and which there are not.
"""
import argparse
import os
import re
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN, END = "<!-- functions: tools/c_api.py --table -->\n", "<!-- end of functions -->\n"
MADE = "/* Made by tools/c_api.py from rocksdb/c.h. */\n"


class Function:
    """A function of the header: `result name(parameters)`."""

    def __init__(self, text):
        found = re.fullmatch(r"(?:extern )?(?:ROCKSDB_LIBRARY_API )?(.*?)\b(rocksdb_\w+) ?\((.*)\)",
                             text)
        if not found:
            raise SystemExit(f"c_api.py: this is no function that can be read: {text}")
        self.result, self.full_name = found.group(1).strip(), found.group(2)
        self.name = self.full_name.removeprefix("rocksdb_")
        texts = [part for part in split(found.group(3)) if part not in ("", "void")]
        self.parameters = [named(part, i) for i, part in enumerate(texts)]

    def declaration(self):
        parameters = ", ".join(text for text, _ in self.parameters) or "void"
        return ours(f"{self.result} {self.full_name}({parameters})")

    def forward(self):
        call = f"{self.full_name}({', '.join(name for _, name in self.parameters)})"
        back = "" if self.result == "void" else "return "
        return f"{self.declaration()} {{\n  {back}{call};\n}}\n"


def ours(text):
    return re.sub(r"\brocksdb_", "breccia_", text)


def split(parameters):
    """The parts between commas that are in no parentheses."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def named(parameter, index):
    """A parameter with a name, and the name."""
    found = re.search(r"\(\*(\w+)\)", parameter) or re.search(r"(\w+)(?:\[\])?$", parameter)
    is_type = found and re.fullmatch(r"void|char|int|double|float|bool|\w+_t", found.group(1))
    if found and not is_type:
        return parameter, found.group(1)
    return f"{parameter} a{index}", f"a{index}"


def read(path):
    """Structs, enumerations and functions of the header."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#[^\n]*", " ", text, flags=re.MULTILINE)
    text = re.sub(r'extern "C" \{|^\s*\}\s*$', " ", text, flags=re.MULTILINE)
    structs, enums, functions = [], [], []
    for part in (re.sub(r"\s+", " ", part).strip() for part in text.split(";")):
        if part.startswith("typedef struct"):
            structs.append(part.split()[2])
        elif part.startswith("enum"):
            enums.append(part)
        elif part and part != "}":
            functions.append(Function(part))
    return structs, enums, functions


def rules():
    with open(os.path.join(ROOT, "tools/c_api.toml"), "rb") as file:
        return tomllib.load(file)


def verdict(function, table):
    """`same`, `ours` or `absent`, and what there is to say."""
    for name, note in table["ours"]:
        if function.name == name:
            return "ours", note
    for pattern, reason in table["absent"]:
        if re.fullmatch(pattern, function.name):
            return "absent", reason
    notes = (note for pattern, note in table["notes"] if re.fullmatch(pattern, function.name))
    return "same", next(notes, "")


def header_text(structs, enums, functions, table):
    lines = [MADE, "#pragma once\n", "#include <stdbool.h>\n#include <stddef.h>\n",
             "#include <stdint.h>\n\n", '#ifdef __cplusplus\nextern "C" {\n#endif\n\n']
    lines += [f"typedef struct {struct} {ours(struct)};\n" for struct in structs]
    lines += [f"{ours(enum)};\n" for enum in enums]
    lines += [f"{function.declaration()};\n" for function in functions
              if verdict(function, table)[0] != "absent"]
    return "".join(lines + ["\n#ifdef __cplusplus\n}\n#endif\n"])


def forward_text(functions, table):
    lines = [MADE, "#include <rocksdb/c.h>\n\n#include \"breccia/c_rocksdb.h\"\n\n"]
    lines += [function.forward() for function in functions
              if verdict(function, table)[0] == "same"]
    return "".join(lines)


def table_text(functions, table):
    lines = ["| function of rocksdb/c.h | here | |\n", "| --- | --- | --- |\n"]
    for function in sorted(functions, key=lambda function: function.name):
        kind, note = verdict(function, table)
        lines.append(f"| `{function.full_name}` | {kind} | {note} |\n")
    return "".join(lines)


def with_table(path, table):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return text, before + BEGIN + "\n" + table + "\n" + END + after


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("header")
    parser.add_argument("--out")
    parser.add_argument("--table")
    parser.add_argument("--check")
    arguments = parser.parse_args()
    structs, enums, functions = read(arguments.header)
    table = rules()
    known = {function.name for function in functions}
    missing = [name for name, _ in table["ours"] if name not in known]
    if missing:
        raise SystemExit(f"c_api.py: {arguments.header} has no {', '.join(missing)}")
    if arguments.out:
        write(os.path.join(arguments.out, "include/breccia/c_rocksdb.h"),
              header_text(structs, enums, functions, table))
        write(os.path.join(arguments.out, "forward.c"), forward_text(functions, table))
    if arguments.table:
        write(arguments.table, with_table(arguments.table, table_text(functions, table))[1])
    if arguments.check:
        text, wanted = with_table(arguments.check, table_text(functions, table))
        if text != wanted:
            print(f"{arguments.check} is out of date: tools/c_api.py {arguments.header} "
                  f"--table {arguments.check}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
