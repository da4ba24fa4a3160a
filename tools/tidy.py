#!/usr/bin/env python3
"""Checks the rules of this code base that a machine can check.

    tools/tidy.py              check all files; prints path:line: message, exit 1 if there are any
    tools/tidy.py --self-test  show that every rule finds its example and spares clean code

A rule is a generator: it takes a File and yields (line, message). EXAMPLES holds one offender per
rule, so that no rule can quietly stop working.
"""
import functools
import os
import re
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLUMNS_MAX = 100
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
ROOM_LINES_MAX = 5000
# Assertions of a module for each hundred of its functions of five lines and more, at least. It may
# only rise.
ASSERTIONS_MIN = {"batch": 84, "pmem": 91, "wal": 87}
CPP = (".h", ".cc", ".cu", ".cuh")
HEADERS = (".h", ".cuh")
TEXT = CPP + (".py", ".cmake", ".md", ".toml", ".json", ".txt", ".yml", ".supp")
SCRIPTS = {"dev", "tools/bundle", "tools/rocksdb-release"}
SKIPPED_FOLDERS = {"build", "results", "data", "__pycache__"}

# One alternative per kind of text that is no code. A quote after a digit separates thousands.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'", re.DOTALL)


class File:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.splitlines()
        self.is_cpp, self.is_header = path.endswith(CPP), path.endswith(HEADERS)

    @functools.cached_property
    def code(self):
        """The text with comments and strings blanked, line numbers kept; C++ only."""
        def blank(match):
            found = match.group()
            return ('""' if found[0] in 'R"' else "") + "\n" * found.count("\n")
        return NO_CODE.sub(blank, self.text) if self.is_cpp else ""

    @functools.cached_property
    def code_lines(self):
        return self.code.splitlines()

    @functools.cached_property
    def includes(self):
        """(line, "<x/y.h>" or "\"x/y.h\""), in order."""
        found = re.compile(r'\s*#\s*include\s*([<"][^>"]+[>"])')
        hits = ((number, found.match(line)) for number, line in enumerate(self.lines, 1))
        return [(number, hit.group(1)) for number, hit in hits if hit] if self.is_cpp else []


@functools.cache
def modules():
    with open(os.path.join(ROOT, "tools/layers.toml"), "rb") as file:
        return tomllib.load(file)["modules"]


def layers(file):
    """A module includes only modules built before it; public headers include none."""
    folders = file.path.split("/")
    if folders[0] not in ("src", "include") or not file.is_cpp:
        return
    if folders[0] == "src" and folders[1] not in modules():
        yield 1, f"module {folders[1]} is not in tools/layers.toml"
        return
    own = modules().index(folders[1]) if folders[0] == "src" else -1
    for number, name in file.includes:
        other = name.strip('<>"').split("/")[0]
        if other in modules() and modules().index(other) > own:
            yield number, f"{'/'.join(folders[:2])} may not include {name}"
    for number, other in forward_declarations(file) if own >= 0 else []:
        if modules().index(other) > own:
            yield number, f"{'/'.join(folders[:2])} may not declare what is {other}'s"


def forward_declarations(file):
    """(line, module) of the namespaces of modules that hold declarations of types alone."""
    found = re.compile(r"^namespace (?:breccia::)?(\w+) \{\n(?:\s*(?:class|struct) \w+;\n)+\}",
                       re.MULTILINE)
    for hit in found.finditer(file.code):
        if hit.group(1) in modules():
            yield file.code.count("\n", 0, hit.start()) + 1, hit.group(1)


def no_test_headers(file):
    if file.path.startswith(("src/", "include/")):
        for number, name in file.includes:
            if re.match(r'["<](gtest|gmock|rapidcheck|benchmark|support|tests)[/.]', name):
                yield number, f"{name} belongs to tests"


def pragma_once(file):
    if file.is_header and not re.match(r"\s*#pragma once\b", file.code):
        yield 1, "a header starts with #pragma once"


def no_using_namespace(file):
    if file.is_header:
        yield from matches(file, r"\busing\s+namespace\b", "no using namespace in a header")


def line_length(file):
    if file.path.endswith(CPP + (".py", ".cmake")):
        for number, line in enumerate(file.lines, 1):
            if len(line) > COLUMNS_MAX:
                yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"


def file_length(file):
    if file.is_cpp and len(file.lines) > FILE_LINES_MAX:
        yield len(file.lines), f"{len(file.lines)} lines, at most {FILE_LINES_MAX}"


def function_length(file):
    for start, end in functions(file.code):
        if end - start + 1 > FUNCTION_LINES_MAX:
            yield start, f"a function of {end - start + 1} lines, at most {FUNCTION_LINES_MAX}"


def no_open_ends(file):
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"])
    for number, line in enumerate(file.lines, 1):
        if re.search(rf"\b({words})\b", line):
            yield number, "an open end; do it or file an issue"


def launches(file):
    if not file.path.endswith((".cu", ".cuh")):
        yield from matches(file, "<<<", "kernels are launched in .cu and .cuh files only")


def raw_cuda(file):
    # Tests on a device play users who have arrays there.
    if not file.path.startswith(("src/exec/cuda/", "tests/device/")):
        yield from matches(file, r"\bcuda(Malloc\w*|Memcpy\w*|DeviceSynchronize)\s*\(",
                           "raw CUDA call outside src/exec/cuda")


def dropped_prefetches(file):
    """GCC leaves out calls of functions that do nothing else; base/prefetch.h says why."""
    if file.path != "src/base/prefetch.h":
        yield from matches(file, r"\b__builtin_prefetch\b", "use base::prefetch")


def no_dying_ranges(file):
    # Until C++23 only the last object of the expression lives as long as the loop.
    yield from matches(file, r"\bfor \(.*[^:]: [^:]*\b(?:view\(\)->|pin\(\)\.)",
                       "a loop over a part of a temporary; name what holds it first")


def no_machine_paths(file):
    for number, line in enumerate(file.lines, 1):
        if re.search(r"(?<![\w.$}])/(?:work|root|home)/\w", line):
            yield number, "a path of one machine"


def matches(file, pattern, message):
    for number, line in enumerate(file.code_lines, 1):
        if re.search(pattern, line):
            yield number, message


SCOPE = re.compile(r'^(?:inline\s+)?namespace\b|^extern\s*""|'
                   r"^(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:class|struct|union|enum)\b[^()]*"
                   r"(?:alignas\s*\([^()]*\)[^()]*)?$", re.DOTALL)
FUNCTION = re.compile(r"\)\s*(?:(?:const|noexcept|override|final|mutable|try|&&?)\s*|"
                      r"noexcept\s*\([^{]*\)\s*|->[^{;=]*|requires[^{;=]*)*$", re.DOTALL)


def functions(code):
    """Yields (first line of the body, last line) of each outermost function.

    A brace opens a function if the declaration before it ends like one, and what lies inside a
    function is part of it. Preprocessor lines are skipped. A heuristic: it knows no grammar.
    """
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda hit: "\n" * hit.group().count("\n"), code, flags=re.MULTILINE)
    stack, before, line = [], "", 1
    for char in code:
        line += char == "\n"
        if char == "{":
            kind = "inner" if any(kind == "function" for kind, _, _ in stack) else (
                "scope" if SCOPE.search(before.strip()) else
                "function" if FUNCTION.search(before) else "value")
            stack.append((kind, line, before))
            before = ""
        elif char == "}" and stack:
            kind, start, opened = stack.pop()
            # After `member_{value}` the declaration goes on; after any other block it is over.
            before = opened + "()" if kind == "value" else ""
            if kind == "function":
                yield start, line
        elif char == ";" or (char == ":" and before.strip() in ("public", "private", "protected")):
            before = ""
        else:
            before += char


# ---- rules on all files at once: they yield (path, line, message) ----

def rooms(files):
    """No folder of src/ has more lines in its own files than a person can know."""
    lines = {}
    for file in files:
        if file.is_cpp and file.path.startswith("src/"):
            folder = os.path.dirname(file.path)
            lines[folder] = lines.get(folder, 0) + len(file.lines)
    for folder, count in sorted(lines.items()):
        if count > ROOM_LINES_MAX:
            yield folder, 1, f"a room of {count} lines, at most {ROOM_LINES_MAX}"


def header_circles(files):
    """No header of src/ includes itself, by whatever way."""
    headers = {file.path.removeprefix("src/"): file for file in files
               if file.is_header and file.path.startswith("src/")}
    done = set()

    def walk(path, way):
        if path in way:
            circle = " -> ".join([*way[way.index(path):], path])
            yield f"src/{path}", 1, f"includes itself: {circle}"
        elif path not in done:
            for _, name in headers[path].includes:
                if name.strip('<>"') in headers:
                    yield from walk(name.strip('<>"'), [*way, path])
            done.add(path)

    for path in sorted(headers):
        yield from walk(path, [])


def assertions(files):
    """Modules that hold what must not be lost go on saying what they rely on."""
    for module, least in ASSERTIONS_MIN.items():
        code = [file.code for file in files
                if file.is_cpp and file.path.startswith(f"src/{module}/")]
        count = sum(end - start >= 4 for text in code for start, end in functions(text))
        asserted = sum(len(re.findall(r"\bBRECCIA_(?:ASSERT|INVARIANT)\(", text)) for text in code)
        if 100 * asserted < least * count:
            yield (f"src/{module}", 1, f"{asserted} assertions in {count} functions of five lines "
                   f"and more, at least {least} in a hundred")


TREE_RULES = [rooms, header_circles, assertions]
RULES = [layers, no_test_headers, pragma_once, no_using_namespace, line_length, file_length,
         function_length, no_open_ends, launches, raw_cuda, dropped_prefetches, no_dying_ranges,
         no_machine_paths]


def check(file):
    return [(number, message) for rule in RULES for number, message in rule(file)]


def project_files():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders
                            if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            if name.endswith(TEXT) or path in SCRIPTS:
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    yield File(path, file.read())


# ---- self-test ----

def body(line_count):
    return "{\n" + "  step();\n" * (line_count - 2) + "}\n"


HEADER = "#pragma once\n"
EXAMPLES = [
    (layers, "src/wal/log.h", HEADER + '#include "ordered/engine.h"\n'),
    (layers, "src/wal/log.cc", "#include <ordered/engine.h>\n"),
    (layers, "src/unknown/log.cc", "\n"),
    (layers, "src/wal/log.h", HEADER + "namespace breccia::ordered {\nclass Engine;\n}\n"),
    (layers, "include/breccia/store.h", HEADER + '#include "base/bytes.h"\n'),
    (no_test_headers, "src/wal/log.h", HEADER + "#include <gtest/gtest.h>\n"),
    (no_test_headers, "src/wal/log.cc", '#include "support/seeds.h"\n'),
    (pragma_once, "src/wal/log.h", "// Text.\n#ifndef LOG_H\n#define LOG_H\n#endif\n"),
    (no_using_namespace, "src/wal/log.h", HEADER + "using namespace std;\n"),
    (line_length, "src/wal/log.cc", "// " + "x" * 98 + "\n"),
    (file_length, "src/wal/log.cc", "int x;\n" * 1001),
    (function_length, "src/wal/log.cc", "int f(int a) const " + body(71)),
    (function_length, "src/wal/log.cc", "#define A \\\n  B\nnamespace b {\nint f() "
     + body(71)),
    (function_length, "src/wal/log.cc", "class A : B {\n public:\n  A() : x_{1}, y_(2) "
     + body(71)),
    (function_length, "src/wal/log.cc", "auto f() -> Result<int> " + body(71)),
    (function_length, "src/wal/log.cc", "char c = '{';\nstruct S f() noexcept " + body(71)),
    (no_open_ends, "src/wal/log.cc", "// TO" "DO: later\n"),
    (launches, "src/wal/log.cc", "kernel<<<1, 2>>>();\n"),
    (raw_cuda, "src/wal/log.cu", "cudaMemcpyAsync(a, b, 1);\n"),
    (raw_cuda, "src/hash/table.cc", "cudaDeviceSynchronize();\n"),
    (dropped_prefetches, "src/wal/log.cc", "__builtin_prefetch(next);\n"),
    (no_dying_ranges, "src/wal/log.cc", "for (const auto& one : state_->view()->families) {\n"),
    (no_machine_paths, "docs/impl/wal.md", "see " "/wo" "rk/here\n"),
]
TREE_EXAMPLES = [
    (rooms, [("src/wal/a.cc", "int x;\n" * 3000), ("src/wal/b.cc", "int x;\n" * 2001)]),
    (header_circles, [("src/wal/a.h", '#include "wal/b.h"\n'),
                      ("src/wal/b.h", '#include "wal/a.h"\n')]),
    (assertions, [("src/wal/a.cc", "int f() {\n\n\n  BRECCIA_ASSERT(ready_);\n}\n"),
                  ("src/wal/b.cc", "int f() " + body(5))]),
]
CLEAN = [
    ("src/wal/log.h", "// Why.\n" + HEADER + '#include <breccia/store.h>\n#include "base/bytes.h"\n'
     '#include "wal/format.h"\n#include <rocksdb/db.h>\n'),
    ("include/breccia/store.h", HEADER + "#include <rocksdb/db.h>\n#include <breccia/status.h>\n"),
    ("src/wal/log.cc", "// using namespace std; <<<\nauto s = \"<<<\";\n" + "int f() " + body(70)),
    ("src/wal/log.cc", "namespace a {\n" + ("int f() " + body(60)) * 3 + "}  // namespace a\n"),
    ("src/wal/log.cc", "struct A {\n" + "int x;\n" * 80 + "};\n"
     "int t[] = {\n" + "1,\n" * 80 + "};\n"),
    ("src/wal/log.cc", "const int n = 1'000'000;\nint f() " + body(60) + "int g() " + body(60)),
    ("src/wal/log.cc", "const auto view = state->view();\nfor (auto& one : view->families) {\n"),
    ("src/exec/cuda/memory.cu", "cudaMalloc(&p, 1);\nkernel<<<1, 2>>>();\n"),
    ("docs/impl/wal.md", "a/work/b and [path](https://example.org/home/x)\n" + "x" * 200 + "\n"),
]


def self_test():
    failures = []
    for rule, path, text in EXAMPLES:
        if not list(rule(File(path, text))):
            failures.append(f"{rule.__name__} misses its example in {path}: {text[:60]!r}")
    for path, text in CLEAN:
        failures += [f"clean code in {path}: {message}" for _, message in check(File(path, text))]
    for rule, texts in TREE_EXAMPLES:
        files = [File(path, text) for path, text in texts]
        if not list(rule(files)):
            failures.append(f"{rule.__name__} misses its example")
        if list(rule(files[:1])):
            failures.append(f"{rule.__name__} finds fault with half of its example")
    rules, offenders = [*RULES, *TREE_RULES], [*EXAMPLES, *TREE_EXAMPLES]
    untested = set(rules) - {example[0] for example in offenders}
    failures += [f"{rule.__name__} has no example" for rule in untested]
    print("\n".join(failures) or f"tidy: {len(rules)} rules, {len(offenders)} offenders found")
    return bool(failures)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    files = list(project_files())
    findings = [(file.path, *found) for file in files for found in check(file)]
    findings += [found for rule in TREE_RULES for found in rule(files)]
    for path, number, message in findings:
        print(f"{path}:{number}: {message}")
    print(f"tidy: {len(files)} files, {len(findings)} findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
