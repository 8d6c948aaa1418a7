# SPDX-License-Identifier: Apache-2.0
"""Fails when a C++ file uses a name whose header neither the file nor a header of the project that it includes names.

Usage: includes.py ROOT

Builds join the files of a module and read common headers once: they would not see it. Names are those that one header of
the project declares in a namespace, and those of the standard library in STANDARD and of fmt in FMT.
"""
import os
import re
import sys

import tree

STANDARD = {
    "algorithm": "all_of any_of none_of sort stable_sort max_element min_element minmax_element find find_if count "
                 "count_if transform copy copy_if copy_n fill_n fill clamp lower_bound upper_bound nth_element equal "
                 "reverse rotate unique mismatch generate ranges::max ranges::min",
    "array": "array to_array",
    "atomic": "atomic atomic_ref memory_order_relaxed memory_order_acquire memory_order_release",
    "bit": "bit_cast bit_ceil bit_width popcount countl_zero countr_zero has_single_bit",
    "charconv": "from_chars to_chars",
    "chrono": "chrono::steady_clock chrono::system_clock chrono::seconds chrono::milliseconds chrono::microseconds",
    "cmath": "sqrt isfinite isnan isinf exp2 tanh erf lround llround nextafter ldexp frexp fma signbit",
    "condition_variable": "condition_variable",
    "cstdlib": "getenv strtol strtod",
    "cstring": "memcpy memset memcmp strlen strerror",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception make_exception_ptr terminate",
    "filesystem": "filesystem::path filesystem::exists",
    "fstream": "ifstream ofstream",
    "functional": "function hash",
    "future": "future promise async",
    "iostream": "cout cerr cin",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared",
    "mutex": "mutex lock_guard unique_lock scoped_lock call_once once_flag",
    "numeric": "accumulate iota inner_product partial_sum exclusive_scan reduce gcd lcm midpoint",
    "optional": "optional nullopt",
    "queue": "queue priority_queue",
    "random": "mt19937 mt19937_64 normal_distribution uniform_int_distribution uniform_real_distribution",
    "regex": "regex regex_match regex_search regex_replace",
    "set": "set multiset",
    "span": "span as_bytes as_writable_bytes",
    "sstream": "istringstream ostringstream stringstream",
    "string": "string to_string getline",
    "string_view": "string_view",
    "system_error": "error_code generic_category system_category errc",
    "thread": "thread this_thread::sleep_for this_thread::yield",
    "tuple": "tuple tie make_tuple",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange",
    "variant": "variant visit holds_alternative get_if monostate",
    "vector": "vector",
}
# Names that come with more than one header; any of them will do.
ALSO = {"string_view": {"string"}, "getline": {"istream", "iostream", "fstream", "sstream"},
        "error_code": {"filesystem"}, "errc": {"charconv"}, "copy_n": {"memory"}, "hash": {"string", "memory"}, "terminate": {"thread"}}
HEADER_OF = {name: {header} | ALSO.get(name, set()) for header, names in STANDARD.items() for name in names.split()}

# What later releases of fmt than Debian's have moved out of fmt/format.h.
FMT = {"join": "fmt/ranges.h"}

FOREIGN = {"std", "fmt", "nlohmann", "testing", "CLI", "toml", "spdlog", "fs"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#[^\n]*',
                   re.S | re.M)
STANDARD_USE = re.compile(r"\bstd::(?:ranges::(?!max\b|min\b))?((?:ranges::|chrono::|filesystem::|this_thread::)?\w+)")
# A declaration at the left margin is one of a namespace: the style has it so.
TYPE = re.compile(r"^([ \t]*)(?:template <[^\n]*>\s*)?(?:class|struct|enum class|enum|concept|using(?= \w+ =)) (\w+)\b"
                  r"(?=[^;:]*[{=:])",
                  re.M)
FUNCTION = re.compile(r"^([ \t]*)(?:\[\[[\w:, ]+\]\] )*(?!return|using|else|case|throw|new|delete)"
                      r"[a-zA-Z_][\w:<>,&*. ]*[ &*](\w+)\(", re.M)
# Types that a file announces, names that it takes from elsewhere.
ANNOUNCED = re.compile(r"\b(?:class|struct|typename|enum class) (?:alignas\(\w+\) )?(?:\w+::)*(\w+)|\busing [\w:]+::(\w+);")
# Parameters of templates and of functions, and variables.
TEMPLATE = re.compile(r"(?:template |\])<([^{};()]*?)>[\s(]")
PARAMETER = re.compile(r"[\w>&*] (\w+)(?=[,)])|[\w>&*] (\w+)(?= = |;|\{)")
KEYWORDS = {"alignas", "decltype", "if", "for", "while", "switch", "sizeof", "noexcept"}
ENUMERATORS = re.compile(r"\benum\b[^{;]*\{([^}]*)\}")
TEST = re.compile(r"^(?:TEST\w*\([^)]*\)|INSTANTIATE_TEST_SUITE_P\(\s*\w+,\s*\w+)", re.M)
CONSTANT = re.compile(r"^([ \t]*)(?:inline |static )*(?:constexpr|const) [\w:<>,* ]+ (k[A-Z]\w*)\b", re.M)
USE = re.compile(r"(?<![\w.:])(?<!->)(?<!template )((?:\w+::)*)([A-Za-z_]\w*)\b(?!::)(\s*\()?")


class File:
    def __init__(self, root, name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = file.read()
        self.name = name
        self.is_test = name.startswith("tests/")
        self.is_header = name.endswith((".hpp", ".cuh"))
        self.includes = INCLUDE.findall(text)
        self.code = TEST.sub("", NOISE.sub('""', text))
        self.line_of = lambda at: self.code.count("\n", 0, at) + 1

    def announced(self):
        """Names that the file declares in whatever way, or needs no declaration of: members, parameters of templates,
        types told of in advance, enumerators."""
        names = set(re.findall(r"\w+", " ".join(ENUMERATORS.findall(self.code))))
        for pattern in (ANNOUNCED, PARAMETER):
            names |= {name for pair in pattern.findall(self.code) for name in pair}
        for parameters in TEMPLATE.findall(self.code):
            names |= set(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", parameters))
        for pattern in (TYPE, CONSTANT, FUNCTION):
            outer, inner = self.declared(pattern)
            names |= outer | inner
        return names

    def declared(self, pattern):
        """(at the left margin, elsewhere): the names that the file declares."""
        found = pattern.findall(self.code)
        return {name for indent, name in found if not indent}, {name for indent, name in found if indent}


def read(root):
    names = [n for n in tree.source_files(root) if tree.is_cpp(n)]
    return {n: File(root, n) for n in names}


def resolve(files, file, include):
    """The project's file that an include names, or none."""
    for folder in ("src/", "", "tests/", "bench/", os.path.dirname(file.name) + "/"):
        if folder + include in files:
            return folder + include
    return None


def closure(files, file, known):
    """Of a file and the project's headers that it reaches: their names, the other headers that they include, and the
    names that they announce."""
    if file.name not in known:
        known[file.name] = (set(), set(), set())
        inside, outside, announced = {file.name}, set(), file.announced()
        for include in file.includes:
            found = resolve(files, file, include)
            if found is None:
                outside.add(include)
                continue
            more = closure(files, files[found], known)
            inside |= more[0] | {found}
            outside |= more[1]
            announced |= more[2]
        known[file.name] = (inside, outside, announced)
    return known[file.name]


def declaring_headers(files, *patterns):
    """Name -> the headers that declare it in a namespace."""
    places = {}
    for file in files.values():
        if file.is_header:
            for pattern in patterns:
                for name in file.declared(pattern)[0] - KEYWORDS:
                    places.setdefault(name, set()).add(file.name)
    return places


def is_ours(qualifier):
    return not qualifier or (qualifier.split("::")[0] not in FOREIGN and not any(c.isupper() for c in qualifier))


def errors_of(file, reached, types, functions):
    inside, outside, announced = reached
    missing = {}
    if re.search(r"\bfmt::", file.code) and not any(header.startswith("fmt/") for header in outside):
        missing["fmt"] = (file.code.index("fmt::"), "<fmt/format.h>")
    for name, header in FMT.items():
        if (at := file.code.find(f"fmt::{name}(")) >= 0 and header not in outside:
            missing[f"fmt::{name}"] = (at, f"<{header}>")
    for match in STANDARD_USE.finditer(file.code):
        headers = HEADER_OF.get(match[1], set())
        if headers and not headers & outside:
            missing.setdefault(f"std::{match[1]}", (match.start(), f"<{sorted(headers)[0]}>"))
    for match in USE.finditer(file.code):
        headers = types.get(match[2]) or (functions.get(match[2]) if match[3] else None)
        if not headers or match[2] in announced or not is_ours(match[1]):
            continue
        visible = {h for h in headers if file.is_test or not h.startswith("tests/")}
        if visible and not visible & inside:
            missing.setdefault(match[2], (match.start(), f'"{min(visible)}"'))
    return [f"{file.name}:{file.line_of(at)}: uses {name} without including {header}"
            for name, (at, header) in missing.items()]


def main():
    files = read(sys.argv[1])
    types = declaring_headers(files, TYPE, CONSTANT)
    functions = declaring_headers(files, FUNCTION)
    known = {}
    errors = []
    checked = [file for file in files.values() if not file.name.endswith((".cu", ".cuh"))]
    for file in checked:
        errors += errors_of(file, closure(files, file, known), types, functions)
    tree.finish(errors, len(checked), "C++ files")


if __name__ == "__main__":
    main()
