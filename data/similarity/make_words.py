"""Writes the file of word_list.h from jieba's: make_words.py DICT START AFTER EMIT OUT.

DICT is jieba's dict.txt, the others finalseg/prob_start.py, prob_trans.py and prob_emit.py.
"""

import ast
import sys

LETTERS = "BEMS"

HEAD = """\
# Words and their frequencies, and a hidden Markov model of words: those of jieba 0.42.1.
#
# Copyright (c) 2013 Sun Junyi
#
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
# associated documentation files (the "Software"), to deal in the Software without restriction,
# including without limitation the rights to use, copy, modify, merge, publish, distribute,
# sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
# furnished to do so, subject to the following conditions:
#
# The above copyright notice and this permission notice shall be included in all copies or
# substantial portions of the Software.
#
# THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
# NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
# NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
# DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
# OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def table(path):
    """Reads the dictionary P of one of jieba's modules, `P = {...}`, without running the module."""
    with open(path, encoding="utf-8") as file:
        for statement in ast.parse(file.read()).body:
            if isinstance(statement, ast.Assign) and statement.targets[0].id == "P":
                return ast.literal_eval(statement.value)
    sys.exit(f"{path}: no P in it")


def fields(probabilities):
    return " ".join(
        repr(probabilities[letter]) if letter in probabilities else "-" for letter in LETTERS
    )


def main():
    words_path, start, after, emit = sys.argv[1], *map(table, sys.argv[2:5])
    frequencies, total = {}, 0
    with open(words_path, encoding="utf-8") as file:
        for line in file:
            word, frequency = line.split(" ")[:2]
            frequencies[word] = int(frequency)
            total += int(frequency)  # a repeated word is counted twice, as in jieba
    characters = {}
    for letter, probabilities in emit.items():
        for character, probability in probabilities.items():
            characters.setdefault(character, {})[letter] = probability
    with open(sys.argv[5], "w", encoding="utf-8", newline="\n") as out:
        out.write(HEAD)
        out.write(f"words {len(frequencies)} {total}\n")
        for word in sorted(frequencies, key=lambda word: word.encode()):
            out.write(f"{word} {frequencies[word]}\n")
        out.write(f"characters {len(characters)}\n")
        for character in sorted(characters):
            out.write(f"{character} {fields(characters[character])}\n")
        out.write(f"start {fields(start)}\n")
        for letter in LETTERS:
            out.write(f"after {letter} {fields(after[letter])}\n")


main()
