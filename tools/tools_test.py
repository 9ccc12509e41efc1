#!/usr/bin/env python3
"""Tests of the tools: each runs a tool on a small tree and looks at its verdict."""
import array
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class ToolTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_tool(self, tool, *arguments):
        done = subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(ToolTest):
    TREE = {
        "src/CMakeLists.txt": "foreach(folder base trace model)\nendforeach()\n",
        "src/base/CMakeLists.txt": "plimsoll_folder(base DEPS)\n",
        "src/base/units.h": "",
        "src/trace/CMakeLists.txt": "plimsoll_folder(trace DEPS base PRIVATE_DEPS fmt)\n",
        "src/trace/trace.h": '#include "base/units.h"\n#include <vector>\n',
        "src/model/CMakeLists.txt": "plimsoll_folder(model DEPS base)\n",
        "src/model/families/llama.cc": '#include "base/units.h"\n',
    }

    def breaches(self, changes):
        write_tree(self.root, {**self.TREE, **changes})
        code, text = self.run_tool("check_layers", self.root)
        self.assertEqual(code, 1, text)
        return text

    def test_accepts_a_tree_in_order(self):
        write_tree(self.root, self.TREE)
        self.assertEqual(self.run_tool("check_layers", self.root)[0], 0)

    def test_refuses_an_include_against_the_arrows(self):
        text = self.breaches({"src/base/units.cc": '#include "base/units.h"\n#include "trace/trace.h"\n'})
        self.assertIn("src/base/units.cc:2: base includes trace/trace.h", text)

    def test_refuses_an_include_that_is_not_rooted(self):
        self.assertIn("src/base/units.cc:1", self.breaches({"src/base/units.cc": '#include "units.h"\n'}))

    def test_refuses_a_dependency_against_the_arrows(self):
        text = self.breaches({"src/model/CMakeLists.txt": "\nplimsoll_folder(model DEPS base trace)\n"})
        self.assertIn("src/model/CMakeLists.txt:2: model depends on trace", text)

    def test_refuses_tests_in_no_target(self):
        self.assertIn("src/cost/cost_test.cc:1", self.breaches({"src/cost/cost_test.cc": ""}))
        self.assertIn("does not name cost", self.breaches({"src/cost/CMakeLists.txt": "plimsoll_folder(cost DEPS)"}))
        self.assertIn("no plimsoll_folder(model", self.breaches({"src/model/CMakeLists.txt": ""}))

    def test_refuses_a_folder_it_does_not_know(self):
        self.assertIn("src/helpers:1", self.breaches({"src/helpers/helper.h": ""}))


class CheckDocs(ToolTest):
    TREE = {
        "README.md": "See [the page](docs/page.md).\n",
        "src/allocator/heap.h": "class Heap { void release(); };\n",
        "docs/page.md": "`allocator/heap.h`, `heap.h`, `src/allocator`, `Heap::release()`, `Qwen/Qwen3-8B`, `<name>_test.cc`\n"
                        "```\n`gone.cc`\n```\n",
        "docs/adr/0001-old.md": "`gone.cc`\n",
    }

    def test_accepts_names_that_exist(self):
        write_tree(self.root, self.TREE)
        self.assertEqual(self.run_tool("check_docs", self.root)[0], 0)

    def test_refuses_names_that_are_gone(self):
        for line, complaint in {
            "`gone.cc`": "`gone.cc`: no such file",
            "`allocator/arena`": "`allocator/arena`: no such file",
            "`Heap::grow()`": "no source has the word grow",
            "[old](old.md#part)": "link to old.md#part: no such file",
        }.items():
            with self.subTest(line):
                write_tree(self.root, {**self.TREE, "docs/new.md": f"\n{line}\n"})
                code, text = self.run_tool("check_docs", self.root)
                self.assertEqual(code, 1)
                self.assertIn(f"docs/new.md:2: {complaint}" if "link" in complaint else "docs/new.md:2: ", text)
                self.assertIn(complaint, text)

    def test_refuses_an_output_that_no_scenario_prints(self):
        expected = {"scenarios/fits/expected": "FITS\npeak 5\nslack 1\n"}
        for block, code in {"FITS\npeak 5": 0, "FITS\npeak 6": 1, "other\ntext": 0}.items():
            with self.subTest(block):
                write_tree(self.root, {**self.TREE, **expected, "docs/new.md": f"```\n{block}\n```\n"})
                result, text = self.run_tool("check_docs", self.root)
                self.assertEqual(result, code)
                self.assertEqual("docs/new.md:3: no scenario prints" in text, code == 1)


class RunScenarios(ToolTest):
    """A shell stands in for plimsoll: the command is its -c argument."""

    def setUp(self):
        super().setUp()
        write_tree(self.root, {"tools/run_scenarios": (TOOLS / "run_scenarios").read_text(encoding="utf-8")})
        (self.root / "tools/run_scenarios").chmod(0o755)

    def run_scenarios(self, *arguments):
        return self.run_tool(self.root / "tools/run_scenarios", "--binary", "/bin/sh", *arguments)

    def test_passes_when_all_is_as_expected(self):
        write_tree(self.root, {"scenarios/a/command": "-c  # the script:\n  'echo hello; echo oh >&2; exit 3'\n",
                               "scenarios/a/expected": "hello\n", "scenarios/a/expected_stderr": "oh\n",
                               "scenarios/a/expected_exit": "3\n"})
        self.assertEqual(self.run_scenarios(), (0, "passed a\n1 passed, 0 failed\n"))

    def test_shows_the_difference(self):
        write_tree(self.root, {"scenarios/a/command": "-c 'echo hello; exit 2'", "scenarios/a/expected": "hullo\n"})
        code, text = self.run_scenarios("a")
        self.assertEqual(code, 1)
        self.assertIn("-hullo\n+hello\n", text)
        self.assertIn("exit code 2, expected 0", text)

    def test_update_writes_what_then_passes(self):
        write_tree(self.root, {"scenarios/a/command": "-c 'echo hello; echo oh >&2; exit 3'",
                               "scenarios/b/command": "-c 'printf x; echo note >&2'", "scenarios/b/expected_exit": "1\n"})
        self.assertEqual(self.run_scenarios("--update"), (0, "updated a\nupdated b\n"))
        written = {str(path.relative_to(self.root / "scenarios")) for path in self.root.glob("scenarios/*/expected*")}
        self.assertEqual(written, {"a/expected", "a/expected_exit", "a/expected_stderr", "b/expected"})
        self.assertEqual(self.run_scenarios()[0], 0)
        self.assertEqual(self.run_scenarios("--update"), (0, ""))

    def test_never_takes_a_crash_for_a_golden(self):
        write_tree(self.root, {"scenarios/a/command": "-c 'kill -SEGV $$'"})
        self.assertEqual(self.run_scenarios("--update")[0], 1)
        self.assertFalse((self.root / "scenarios/a/expected").exists())


class TokenizeCorpus(ToolTest):
    """A module of the same name stands in for the package tokenizers: a letter is its place in the alphabet."""

    TOKENIZERS = """
class Tokenizer:
    @staticmethod
    def from_file(path):
        return Tokenizer()
    def token_to_id(self, token):
        return {"<end>": VOCABULARY - 1}.get(token)
    def get_vocab(self, with_added_tokens):
        return {"a": 1, "<end>": VOCABULARY - 1}
    def encode(self, text, add_special_tokens):
        return type("Encoding", (), {"ids": [ord(c) - 96 if c.isalpha() else 0 for c in text]})
"""

    def tokenize(self, *arguments, vocabulary=30):
        write_tree(self.root, {"fake/tokenizers.py": f"VOCABULARY = {vocabulary}\n{self.TOKENIZERS}", "tokenizer.json": "{}"})
        done = subprocess.run([TOOLS / "tokenize_corpus", "--tokenizer", self.root / "tokenizer.json",
                               "--out", self.root / "out.bin", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(self.root / "fake"), "PYTHONDONTWRITEBYTECODE": "1"})
        return done.returncode, done.stdout + done.stderr

    def ids(self, code):
        return list(array.array(code, (self.root / "out.bin").read_bytes()))

    def sidecar(self):
        return json.loads((self.root / "out.bin.json").read_text(encoding="utf-8"))

    def test_writes_documents_in_the_order_of_their_names(self):
        write_tree(self.root, {"text/b.txt": "ab", "text/a.jsonl": '{"text": "c"}\n\n{"text": ""}\n{"text": "d"}\n',
                               "text/.hidden": "z"})
        code, text = self.tokenize("--end-of-document", "<end>", self.root / "text")
        self.assertEqual(code, 0, text)
        self.assertEqual(self.ids("H"), [3, 29, 4, 29, 1, 2, 29])
        self.assertEqual({**self.sidecar(), "tokenizer_sha256": ""},
                         {"format": "plimsoll.tokens/1", "dtype": "uint16", "vocabulary": 30, "tokens": 7, "documents": 3,
                          "cut_documents": 0, "end_of_document": 29, "tokenizer_sha256": ""})

    def test_large_vocabularies_are_wide(self):
        write_tree(self.root, {"a.txt": "ab"})
        self.assertEqual(self.tokenize(self.root / "a.txt", vocabulary=65537)[0], 0)
        self.assertEqual((self.ids("I"), self.sidecar()["dtype"]), ([1, 2], "uint32"))

    def test_says_when_documents_were_cut(self):
        write_tree(self.root, {"a.txt": "ab\ncd\n", "b.jsonl": '{"text": "ab\\ncd"}'})
        code, text = self.tokenize("--piece-length", "4", self.root / "a.txt", self.root / "b.jsonl")
        self.assertIn("note: 2 documents were tokenised in pieces", text)
        self.assertEqual((code, self.ids("H"), self.sidecar()["cut_documents"]), (0, [1, 2, 0, 3, 4, 0, 1, 2, 0, 3, 4], 2))

    def test_a_mistake_leaves_no_files(self):
        write_tree(self.root, {"a.jsonl": '{"text": "a"}\n{"body": "b"}\n'})
        code, text = self.tokenize(self.root / "a.jsonl")
        self.assertEqual(code, 2)
        self.assertIn("a.jsonl:2: no object with the key 'text'", text)
        self.assertEqual(list(self.root.glob("out*")), [])


if __name__ == "__main__":
    unittest.main()
