# SPDX-License-Identifier: Apache-2.0
"""Proves that the checks of this folder can fail: each runs over a small tree with a fault."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CPP = "// SPDX-License-Identifier: Apache-2.0\n"
HASH = "# SPDX-License-Identifier: Apache-2.0\n"


class Checks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_check(self, script, *arguments):
        result = subprocess.run(
            [sys.executable, os.path.join(HERE, script), self.folder.name, *arguments],
            capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout

    def expect_fault(self, script, text, *arguments):
        status, output = self.run_check(script, *arguments)
        self.assertEqual(status, 1, output)
        self.assertIn(text, output)

    def expect_clean(self, script, *arguments):
        status, output = self.run_check(script, *arguments)
        self.assertEqual(status, 0, output)


class FileNames(Checks):
    def test_a_name_twice(self):
        self.write("src/nn/linear.hpp", CPP)
        self.write("codelets/linear/linear.hpp", CPP)
        self.write("apps/plan.cpp", CPP)
        self.write("src/sched/plan.cpp", CPP)
        self.expect_clean("file_names.py")
        self.write("src/nn/plan.hpp", CPP)
        self.write("src/sched/plan.hpp", CPP)
        self.expect_fault("file_names.py", "src/nn/plan.hpp, src/sched/plan.hpp: one name for two files")


class OneJsonReader(Checks):
    def test_another_reader(self):
        self.write("src/base/json.cpp", CPP + "json::sax_parse(text);\n")
        self.write("src/a.cpp", CPP + "read_json_object(path);\n")
        self.expect_clean("one_json_reader.py")
        self.write("apps/b.cpp", CPP + "auto x = nlohmann::json::parse(text);\n")
        self.expect_fault("one_json_reader.py", "apps/b.cpp:2: parses JSON without bounds")


class OnePrinter(Checks):
    def test_another_printer(self):
        self.write("src/base/streams.cpp", CPP + "std::fwrite(text, 1, size, stdout);\n")
        self.write("src/a.cpp", CPP + "#include <spdlog/sinks/stdout_color_sinks.h>\n// as std::cout\nstreams::print(x);\n")
        self.write("bench/a.cpp", CPP + 'fmt::print("{}", rate);\n')
        self.expect_clean("one_printer.py")
        self.write("apps/b.cpp", CPP + 'fmt::print("{}", x);\nstd::fputs(x, stderr);\n')
        self.expect_fault("one_printer.py", "apps/b.cpp:2: prints by a way that may throw")
        self.expect_fault("one_printer.py", "apps/b.cpp:3: prints by a way that may throw")


class OneCli11(Checks):
    def test_another_includer(self):
        self.write("apps/parser.cpp", CPP + "#include <CLI/CLI.hpp>\n")
        self.write("bench/a.cpp", CPP + '#include "apps/parser.hpp"\n')
        self.expect_clean("one_cli11.py")
        self.write("bench/b.hpp", CPP + "#  include <CLI/Option.hpp>\n")
        self.expect_fault("one_cli11.py", "bench/b.hpp:2: includes CLI11: use apps/parser.hpp")


class Includes(Checks):
    def setUp(self):
        super().setUp()
        self.write("src/base/size.hpp", CPP + "#include <vector>\nnamespace dos {\nstruct Size {};\nSize largest();\n"
                   "template <class T>\nusing Sizes = std::vector<T>;\nconstexpr int kSizes = 3;\n}\n")
        self.write("src/io/disk.hpp", CPP + '#include "base/size.hpp"\nnamespace dos {\nclass Disk {};\n}\n')

    def test_what_is_reached_is_clean(self):
        self.write("src/io/disk.cpp", CPP + '#include "io/disk.hpp"\nSizes<Size> sizes{largest()};\nstd::vector<int> x;\n'
                   "// std::map\nauto text = \"std::map\";\nother.largest();\nstd::largest();\n")
        self.write("src/io/told.cpp", CPP + "class Disk;\nDisk* disk;\ntemplate <class Size>\nSize x;\n"
                   "enum class Kind { kSizes };\n")
        self.expect_clean("includes.py")

    def test_what_is_not_reached(self):
        for use, missing in (("Size size;", 'Size without including "src/base/size.hpp"'),
                             ("auto x = dos::largest();", 'largest without including "src/base/size.hpp"'),
                             ("Sizes<int> sizes;", 'Sizes without including "src/base/size.hpp"'),
                             ("int x = kSizes;", 'kSizes without including "src/base/size.hpp"'),
                             ("std::vector<int> x;", "std::vector without including <vector>"),
                             ("auto x = fmt::join(y, \",\");", "fmt::join without including <fmt/ranges.h>"),
                             ("auto x = std::ranges::max(y);", "std::ranges::max without including <algorithm>")):
            with self.subTest(use):
                self.write("apps/a.cpp", CPP + "#include <map>\n#include <fmt/format.h>\n" + use + "\n")
                self.expect_fault("includes.py", f"apps/a.cpp:4: uses {missing}")


class NamedBuffers(Checks):
    def test_indices(self):
        self.write("codelets/a/a_codelet.hpp", CPP + "a_cpu(task.x.data());\nkernel.add_buffer(i);\n")
        self.write("src/rt/codelet.cpp", CPP + "auto* x = buffers[0];\n")
        self.expect_clean("named_buffers.py")
        for access in ("buffers[0]", "STARPU_TASK_INTERFACES[ 3 ]", "STARPU_VECTOR_GET_PTR(descr[1])",
                       "task.pointer<const T>(2)", "kernel.add_buffer(4)", "task.count(0)"):
            self.write("codelets/b/b_codelet.hpp", CPP + f"use({access});\n")
            self.expect_fault("named_buffers.py", "codelets/b/b_codelet.hpp:2: a buffer by its index")


class DocsCode(Checks):
    PAGE = "docs/adding/codelet.md"

    def setUp(self):
        super().setUp()
        self.write("codelets/a.hpp", CPP + "struct A {\n  int a;\n  int b;\n};\n")
        self.write("docs/adding/model.md", "# No code\n")

    def show(self, before, code):
        self.write(self.PAGE, f"# A\n\n{before}\n\n```cpp\n{code}```\n")

    def test_what_stands_in_the_file(self):
        self.show("The struct, in `codelets/a.hpp`:", "struct A {\n  // ...\n  int b;\n};\n")
        self.expect_clean("docs_code.py")
        self.show("The member, in `codelets/a.hpp`:", "int a;\nint b;\n")
        self.expect_clean("docs_code.py")

    def test_what_does_not(self):
        self.show("In `codelets/a.hpp`:", "struct A {\n  int b;\n")
        self.expect_fault("docs_code.py", "not in codelets/a.hpp as it is shown: the lines from 'struct A {'")

    def test_no_file(self):
        self.show("In `codelets/b.hpp`:", "int a;\n")
        self.expect_fault("docs_code.py", "'codelets/b.hpp' does not exist")
        self.show("Without a name:", "int a;\n")
        self.expect_fault("docs_code.py", "no line that ends with `path`: before the block 'int a;'")


class DocsCommands(Checks):
    def setUp(self):
        super().setUp()
        self.write("apps/CMakeLists.txt", HASH + "dos_install_programs(plan export)\n")
        self.write("cmake/DosInstall.cmake", HASH + "set(DOS_INSTALLED_TOOLS corpus)\n")
        self.write("README.md", "`build/release/apps/plan`\n")
        self.write("docs/adr/0001.md", "`tools/corpus`\n")

    def test_what_a_prefix_has(self):
        self.write("docs/a.md", "`tools/carry`, `tools/corpus_text.py`, `build/release/bench/plan`\n\n```sh\nexport A=1\nplan --help\n"
                   "deep-optimizer-states export a b\n```\n")
        self.expect_clean("docs_commands.py")

    def test_what_it_has_not(self):
        for text, fault in (("```sh\nbuild/release/apps/plan --help\n```\n", "'build/release/apps/plan': a prefix has no such folder"),
                            ("`tools/corpus`\n", "say corpus"),
                            ("```sh\nexport runs/a b\n```\n", "'export runs/a b' is the shell's export")):
            with self.subTest(text):
                self.write("slurm/README.md", text)
                self.expect_fault("docs_commands.py", fault)


class FileHeader(Checks):
    def setUp(self):
        super().setUp()
        self.write("src/a.cpp", CPP + "int a;\n" * 399)
        self.write("tools/run", "#!/bin/bash\n" + HASH)
        self.write("CMakeLists.txt", HASH)
        self.write("notes.txt", "not a source file\n")

    def test_good_tree(self):
        self.expect_clean("file_header.py")

    def test_no_licence(self):
        self.write("src/b.hpp", "#pragma once\n")
        self.expect_fault("file_header.py", "src/b.hpp: does not start with '// SPDX")

    def test_no_licence_in_a_script(self):
        self.write("tools/other", "#!/bin/bash\necho\n")
        self.expect_fault("file_header.py", "tools/other: does not start with '# SPDX")

    def test_empty_file(self):
        self.write("src/CMakeLists.txt", "")
        self.expect_fault("file_header.py", "src/CMakeLists.txt: does not start")

    def test_too_long(self):
        self.write("src/a.cpp", CPP + "int a;\n" * 400)
        self.expect_fault("file_header.py", "src/a.cpp: 401 lines")


class DocsPaths(Checks):
    def setUp(self):
        super().setUp()
        self.write("src/rt/handle.hpp", CPP)
        self.write("src/rt/handle.cpp", CPP)
        self.write("docs/guide.md", "See [the session](../src/rt/handle.hpp#L3), `src/rt/handle.hpp:1`, "
                   "`src/<module>/handle.{hpp,cpp}`, `src/*/`, `metrics/loss`, `README.md` and "
                   "[elsewhere](https://example.org/x).\n```\n`src/not/there.cpp`\n```\n")
        self.write("README.md", "Read `docs/guide.md`; results go to `build/x`.\n")

    def test_good_tree(self):
        self.expect_clean("docs_paths.py")

    def test_missing_path(self):
        self.write("README.md", "Read `docs/gone.md`.\n")
        self.expect_fault("docs_paths.py", "README.md: 'docs/gone.md' does not exist")

    def test_missing_alternative(self):
        self.write("README.md", "Read `src/rt/handle.{hpp,cu}`.\n")
        self.expect_fault("docs_paths.py", "handle.{hpp,cu}' does not exist")

    def test_missing_command(self):
        self.write("CONTRIBUTING.md", "Run `./src/rt/tool --fast`.\n")
        self.expect_fault("docs_paths.py", "CONTRIBUTING.md: 'src/rt/tool' does not exist")

    def test_missing_file_of_the_root(self):
        self.write("README.md", "Read `CONTRIBUTING.md`.\n")
        self.expect_fault("docs_paths.py", "README.md: 'CONTRIBUTING.md' does not exist")

    def test_missing_link(self):
        self.write("docs/guide.md", "See [it](handle.hpp).\n")
        self.expect_fault("docs_paths.py", "docs/guide.md: 'handle.hpp' does not exist")


class Format(Checks):
    def setUp(self):
        super().setUp()
        # Stands in for clang-format: complains of the files that hold a tab.
        self.write("tool", "#!/bin/bash\n"
                   "for file in \"${@:4}\"; do\n"
                   "  grep -q $'\\t' $file && echo \"$file:1:1: error: badly formatted\" >&2 && bad=1\n"
                   "done\n"
                   "exit ${bad:-0}\n")
        os.chmod(os.path.join(self.folder.name, "tool"), 0o755)
        self.write("src/a.cpp", CPP)

    def test_good_tree(self):
        self.expect_clean("format.py", "--clang-format=./tool")

    def test_bad_file(self):
        self.write("src/b.hpp", "\tint a;\n")
        self.expect_fault("format.py", "src/b.hpp: run clang-format", "--clang-format=./tool")

    def test_no_tool(self):
        status, output = self.run_check("format.py", "--clang-format=DOS_CLANG_FORMAT-NOTFOUND")
        self.assertEqual(status, 77)
        self.assertIn("skipped", output)


class Shell(Checks):
    def setUp(self):
        super().setUp()
        # Stands in for shellcheck: complains of the files that hold a backtick.
        self.write("tool", "#!/usr/bin/env python3\nimport sys\n"
                   "bad = [f for f in sys.argv[2:] if '`' in open(f).read()]\n"
                   "print(''.join(f'{f}:1:1: note: backtick\\n' for f in bad), end='')\n"
                   "sys.exit(1 if bad else 0)\n")
        os.chmod(os.path.join(self.folder.name, "tool"), 0o755)
        self.write("tools/run", "#!/usr/bin/env bash\necho\n")
        self.write("tools/notes", "`no script`\n")

    def test_good_tree(self):
        self.expect_clean("shell.py", "--shellcheck=./tool")

    def test_bad_script(self):
        self.write("tools/bad", "#!/bin/sh\necho `date`\n")
        self.expect_fault("shell.py", "tools/bad:1:1: note: backtick", "--shellcheck=./tool")

    def test_no_tool(self):
        status, output = self.run_check("shell.py", "--shellcheck=DOS_SHELLCHECK-NOTFOUND")
        self.assertEqual(status, 77)
        self.assertIn("skipped", output)


if __name__ == "__main__":
    unittest.main()
