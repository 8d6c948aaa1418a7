#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/reference/tokenizers: a text, tokenizers trained on it, and the tokens that the library
`tokenizers` makes of the text, of random strings and of every character.

    python3 -m venv venv && venv/bin/pip install tokenizers transformers sentencepiece protobuf
    venv/bin/python tools/make_tokenizer_reference.py

The folder `llama` in it holds a SentencePiece model like Llama 2's with a tokenizer_config.json, and the tokens that
LlamaTokenizer of `transformers` makes of the same texts.

With --check, no file is written: AutoTokenizer of `transformers` loads a folder that `export` made of a run, and
its tokens of the texts in JSON-lines are compared with those in the data set that prepare_data made of them.

    venv/bin/python tools/make_tokenizer_reference.py --check FOLDER TEXTS.jsonl PREFIX

The text is made of the sentences below and of this project's own pages and sources, so a second run on
another state of the tree writes other files, unless --keep-text takes the text that is there: all of them
belong together."""

import argparse
import gzip
import json
import random
import struct
import sys
import unicodedata
from pathlib import Path

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
SENTENCES = """\
The ship left the harbour at six o'clock, and nobody who'd seen it said they'll forget it.
Das Schiff verließ den Hafen um sechs Uhr früh; die Möwen kreisten noch lange über dem Wasser.
Le bateau a quitté le port à six heures, et l'équipage n'a rien oublié, sauf peut-être le café.
El barco salió del puerto a las seis de la mañana; ¿quién lo habría creído? ¡Nadie!
O navio deixou o porto às seis horas da manhã, e ninguém reparou na tripulação.
La nave lasciò il porto alle sei; perché così presto, però, non lo sapeva nessuno.
Statek opuścił port o szóstej rano, a źródło światła zgasło dopiero później.
Loď opustila přístav v šest hodin ráno a všichni námořníci mlčeli žalem.
A hajó reggel hat órakor hagyta el a kikötőt, és a sirályok őrülten köröztek fölötte.
Gemi sabah altıda limandan ayrıldı; güneş doğarken İstanbul'un ışıkları söndü.
Nava a părăsit portul la șase dimineața, iar țărmul s-a pierdut în ceață.
Laiva lähti satamasta kuudelta aamulla, eikä yöllä ollut näkynyt mitään.
Fartøyet forlot havnen klokken seks; båten på den andre siden ble værende igjen.
Skipið fór úr höfninni klukkan sex um morguninn, þó að veðrið væri ekki gott.
Con tàu rời cảng lúc sáu giờ sáng, và những người thủy thủ đã im lặng nhìn biển.
Корабль покинул порт в шесть часов утра, и чайки ещё долго кружили над водой.
Корабель залишив порт о шостій ранку, її вогні зникли за обрієм.
Το πλοίο άφησε το λιμάνι στις έξι το πρωί, και οι γλάροι πετούσαν πάνω από τη θάλασσα.
הספינה עזבה את הנמל בשעה שש בבוקר, ואיש לא ראה אותה שוב.
غادرت السفينة الميناء في الساعة السادسة صباحًا، ولم يرها أحد بعد ذلك.
کشتی ساعت شش صبح بندر را ترک کرد و مرغان دریایی می‌چرخیدند.
जहाज़ सुबह छह बजे बंदरगाह से निकला, और किसी ने उसे फिर कभी नहीं देखा।
জাহাজটি সকাল ছয়টায় বন্দর ছেড়ে গেল এবং কেউ তাকে আর দেখেনি।
கப்பல் காலை ஆறு மணிக்கு துறைமுகத்தை விட்டு வெளியேறியது.
เรือออกจากท่าเรือตอนหกโมงเช้า และไม่มีใครเห็นมันอีกเลย
船は朝六時に港を出た。カモメが長い間、水の上を飛んでいた。コーヒーは冷めてしまった。
这艘船早上六点离开了港口,海鸥在水面上盘旋了很久。没有人再见过它。
這艘船在早上六點離開了港口,船員們什麼也沒說。
배는 아침 여섯 시에 항구를 떠났고, 갈매기들은 오랫동안 물 위를 맴돌았다.
გემმა ნავსადგური დილის ექვს საათზე დატოვა.
Նավը նավահանգիստը լքեց առավոտյան ժամը վեցին։
መርከቡ ከጠዋቱ አስራ ሁለት ሰዓት ላይ ወደቡን ለቆ ወጣ።
Total: 1234567 items, 3.14159 m², ½ cup, x² + y₃ ≤ 10⁶, №42, Ⅷ, ٣٤٥, १२३, 100 %, $9.99 or 8,50 €.
🙂 Emoji: 👩‍🚀 👨‍👩‍👧‍👦 🇪🇺 🏴‍☠️ ❤️ ✅ — “quotes”, ‘single’, … and → arrows, ﬁ ligatures, Å vs Å.
IT'S, it'S, WE'LL, they'Ve, don't, I'M, he'd, you're, 'tis, rock'n'roll, O'Neill's, ſ'ſ.
""".splitlines()
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
KEPT = r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
# What the text has, and what its random strings are drawn from, was known to this version of Unicode.
UNICODE = "14.0"


def paragraphs(generator):
    """Sentences in a drawn order, with the white space, case and forms that texts have."""
    for _ in range(200):
        chosen = generator.sample(SENTENCES, k=generator.randint(1, 5))
        text = generator.choice([" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000"]).join(chosen)
        if generator.random() < 0.15:
            text = unicodedata.normalize("NFD", text)
        if generator.random() < 0.1:
            text = text.upper()
        yield text + generator.choice(["\n", "\n\n", "\n\n\n", "  \n", " \n \n", "\r\n\r\n", "\n\t"])


def make_text():
    generator = random.Random(1)
    parts = list(paragraphs(generator))
    for name in ("README.md", "docs/architecture.md", "src/data/loader.cpp", "tools/make_reference.py",
                 "src/data/loader.hpp", "cmake/DosTargets.cmake"):
        parts.append((ROOT / name).read_text(encoding="utf-8")[:12000])
    generator.shuffle(parts)
    return "".join(parts)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def train(text, pre_tokenizer, size, *, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def special(text, **flags):
    return AddedToken(text, special=True, normalized=flags.pop("normalized", False), **flags)


def make_gpt2(text):
    """As GPT-2's: the end of a text is in the vocabulary, and is looked for in normalized text."""
    tokenizer = train(text, GPT2, 4000)
    tokenizer.add_special_tokens([special("<|endoftext|>", normalized=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    document = json.loads(tokenizer.to_str())
    document["model"]["vocab"]["<|endoftext|>"] = len(document["model"]["vocab"])
    # The form of older files.
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    return document


def make_llama3(text):
    """As Llama 3's: `ignore_merges`, with whole words that no merge makes."""
    tokenizer = train(text, pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), 4000,
                      ignore_merges=True)
    tokenizer.add_special_tokens([special(t) for t in ("<|begin_of_text|>", "<|end_of_text|>",
                                                       "<|reserved_0|>", "<|reserved_0|>x")])
    document = json.loads(tokenizer.to_str())
    vocabulary = document["model"]["vocab"]
    # Dropping merges leaves tokens that only the whole piece is.
    document["model"]["merges"] = [m for i, m in enumerate(document["model"]["merges"]) if i % 11 != 10
                                   or any(m[0] + m[1] in n for n in document["model"]["merges"])]
    begin = len(vocabulary)
    document["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [begin],
                                                  "tokens": ["<|begin_of_text|>"]}}}]}
    return document


def make_qwen(text):
    tokenizer = train(text, pre_tokenizers.Sequence([split(QWEN), bytes_only()]), 4000,
                      normalizer=normalizers.NFC())
    tokenizer.add_special_tokens([special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return json.loads(tokenizer.to_str())


def make_smollm(text):
    """As SmolLM2's: each digit by itself, then GPT-2's expression."""
    cuts = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2])
    tokenizer = train(text, cuts, 1500)
    tokenizer.add_special_tokens([special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    return json.loads(tokenizer.to_str())


def make_options(text):
    """What the three above do not have."""
    cuts = pre_tokenizers.Sequence([
        pre_tokenizers.Split("::", behavior="isolated"), split(KEPT, "removed", True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)])
    tokenizer = train(text, cuts, 1200, normalizer=normalizers.Sequence([normalizers.NFC()]))
    tokenizer.add_special_tokens([special("</s>"), special("<mask>", lstrip=True),
                                  special("<cut>", rstrip=True), special("<both>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True, normalized=False),
                          AddedToken("naïve", normalized=True), AddedToken("naïvely", normalized=True),
                          AddedToken(" cat", normalized=True, single_word=True),
                          AddedToken("e\u0301t", normalized=True)])
    return json.loads(tokenizer.to_str())


def make_prefix(text):
    """ByteLevel alone, with a space before a text that starts without one."""
    tokenizer = train(text, pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), 700)
    tokenizer.add_special_tokens([special("</s>")])
    return json.loads(tokenizer.to_str())


def make_llama(text, folder):
    """As Llama 2's: bytes for what is no piece, a space before a text, digits apart. Writes the folder."""
    import sentencepiece

    folder.mkdir(exist_ok=True)
    with open(folder / "tokenizer.model", "wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.splitlines()), model_writer=model, model_type="bpe", vocab_size=1400,
            byte_fallback=True, split_digits=True, normalization_rule_name="identity", character_coverage=0.99,
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, num_threads=1, minloglevel=3)
    added = [special(t) for t in ("<unk>", "<s>", "</s>")]
    of_texts = [special("<|im_start|>"), special("<|im_end|>"), AddedToken("<think>", normalized=False),
                special("<mask>", lstrip=True), special("<cut>", rstrip=True), AddedToken("naïvely", normalized=False)]
    decoder = {i if i < 3 else 1397 + i: {name: getattr(t, name) for name in
                                          ("content", "lstrip", "normalized", "rstrip", "single_word", "special")}
               for i, t in enumerate(added + of_texts)}
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": True,
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "additional_special_tokens": [t.content for t in of_texts if t.special],
        "added_tokens_decoder": decoder}, indent=1)


def llama_tokens(folder, lines, text, strings):
    """What LlamaTokenizer makes of texts; it puts a space behind added tokens, too, where it is of the older kind."""
    import transformers

    result = {"library": f"transformers {transformers.__version__}"}
    for kind in ("legacy", "new"):
        slow, fast = (make.from_pretrained(folder, legacy=kind == "legacy") for make in
                      (transformers.LlamaTokenizer, transformers.LlamaTokenizerFast))
        assert fast.is_fast and not slow.is_fast

        def ids(string, known=slow):
            return known(string, add_special_tokens=False)["input_ids"]

        assert slow("a b")["input_ids"] == [slow.bos_token_id] + ids("a b") == fast("a b")["input_ids"]
        result[kind] = {"text": {"tokens": len(ids(text)), "fnv": fnv(ids(text))},
                        "lines": [{"text": line, "tokens": ids(line)} for line in lines],
                        "with_special_tokens": slow("a b")["input_ids"],
                        # 16 bits of each; none where the library's two tokenizers differ.
                        "random": "".join(fnv(ids(string))[:4] if ids(string) == ids(string, fast) else "----"
                                          for string in strings)}
    write_json(folder / "expected.json", result, separators=(",", ":"))


def characters():
    """Every character of UNICODE, as this Python knows it."""
    assert unicodedata.unidata_version.startswith(UNICODE), unicodedata.unidata_version
    return [chr(c) for c in range(0x110000)
            if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]


def random_text(generator, pools):
    parts = []
    for _ in range(generator.randint(1, 12)):
        pool = generator.choice(pools)
        parts += generator.choices(pool, k=generator.choice([1, 1, 2, 3, 5]))
    return "".join(parts)


def make_random(known, added, count):
    generator = random.Random(2)
    marks = [c for c in known if unicodedata.category(c).startswith("M")]
    composing = [c for c in known if unicodedata.normalize("NFC", c) != c
                 or unicodedata.normalize("NFD", c) != c]
    spaces = list(" \t\n\r\v\f\x1c\x85\xa0\u1680\u180e\u2003\u2028\u2029\u202f\u3000\ufeff\u200b")
    words = [w for s in SENTENCES for w in s.split()]
    pools = [known, marks, composing, spaces, [" "], ["\n", "\r\n", " \n"], list("abcXYZ019"),
             words, list("0123456789²½Ⅷ٣"), list("'\"!?.,:;-_<>|()[]{}#*/\\"), added,
             ["'s", "'S", "'ſ", "'ll", "'LL", "'Ve", "::", "word", " cat", "naïve", "naïvely", "e\u0301t"],
             [chr(c) for c in range(0x1100, 0x1200)] + [chr(c) for c in range(0xAC00, 0xAD00)],
             [chr(c) for c in range(256)]]
    return [random_text(generator, pools) for _ in range(count)]


def fnv(ids):
    """64-bit FNV-1a of the ids, written "1 2 3"."""
    value = 0xCBF29CE484222325
    for byte in " ".join(map(str, ids)).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def ranges(characters_in):
    """[first, last] of runs."""
    result = []
    for code in map(ord, characters_in):
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def matched(known, pattern):
    """The characters that a pattern matches: they stand apart from what it does not."""
    cut = split(pattern)
    return [c for c in known if len(cut.pre_tokenize_str(f"#{c}#")) == 3]


def write_json(path, document, **options):
    path.write_text(json.dumps(document, ensure_ascii=False, **options) + "\n", encoding="utf-8",
                    newline="\n")


def read_tokens(path):
    """Of a token file of llm.c's form: a header of 256 numbers, then tokens of 16 or 32 bits."""
    content = path.read_bytes()
    magic, _, count = struct.unpack_from("<3i", content)
    kind = {20240520: "H", 20240801: "I"}[magic]
    return list(struct.unpack_from(f"<{count}{kind}", content, 1024))


def check(folder, lines, prefix):
    """Of each text: tokens that stand before it, its own, and the one that ends it."""
    import transformers

    known = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = []
    for text in (json.loads(line)["text"] for line in lines.read_text(encoding="utf-8").splitlines()):
        theirs += known(text)["input_ids"] + [known.eos_token_id]
        # What the text's own tokens say is the text, but for its normal form.
        own = known.decode(known(text, add_special_tokens=False)["input_ids"])
        assert unicodedata.normalize("NFC", own) == unicodedata.normalize("NFC", text)
    ours = sum((read_tokens(Path(f"{prefix}_{part}.bin")) for part in ("train", "val")), [])
    assert theirs == ours, f"{len(theirs)} tokens of {type(known).__name__}, {len(ours)} of {prefix}"
    print(f"{folder}: {type(known).__name__} makes the {len(ours)} tokens of {prefix}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "tests/reference/tokenizers")
    parser.add_argument("--strings", type=int, default=3000)
    parser.add_argument("--keep-text", action="store_true", help="take the text that is there")
    parser.add_argument("--check", type=Path, nargs=3, metavar=("FOLDER", "TEXTS", "PREFIX"))
    options = parser.parse_args()
    if options.check:
        check(*options.check)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "text.txt"
    text = path.read_bytes().decode() if options.keep_text else make_text()
    made = {"gpt2": make_gpt2, "llama3": make_llama3, "qwen": make_qwen, "options": make_options,
            "prefix": make_prefix, "smollm": make_smollm}
    loaded = {}
    for name, make in made.items():
        document = make(text)
        write_json(options.output / f"{name}.json", document, separators=(",", ":"))
        loaded[name] = Tokenizer.from_str(json.dumps(document))
    path.write_text(text, encoding="utf-8", newline="")

    def ids(name, string):
        return loaded[name].encode(string, add_special_tokens=False).ids

    lines = SENTENCES[:3] + SENTENCES[-3:] + ["", "<|endoftext|> word <mask>  word's\u00e9t",
                                                "\U00011935\U00011930 \u1abd\U000119e0\u0323a\u0323\u0301"]
    known = characters()
    expected = {
        "library": f"tokenizers {tokenizers.__version__}", "unicode": UNICODE,
        "text": {name: {"tokens": len(ids(name, text)), "fnv": fnv(ids(name, text))} for name in made},
        "lines": [{"text": line} | {name: ids(name, line) for name in made} for line in lines],
        "with_special_tokens": {name: loaded[name].encode("a b").ids for name in made},
        "known": ranges(known),
        "classes": {p: ranges(matched(known, p)) for p in (r"\p{L}", r"\p{N}", r"\s")}}
    write_json(options.output / "expected.json", expected, separators=(",", ":"))
    added = sorted({t.content for each in loaded.values() for t in each.get_added_tokens_decoder().values()})
    strings = make_random(known, added, options.strings)
    with open(options.output / "random.jsonl.gz", "wb") as file, \
            gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        for string in strings:
            # 32 bits of each: a wrong one among thousands shows.
            row = [string, "".join(fnv(ids(name, string))[:8] for name in made)]
            packed.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
    make_llama(text, options.output / "llama")
    of_llama = lines + ["a<|im_end|> b<think>c</s>", "<s> d <mask>  <cut> e\u2581f 1234", " ", "  \n x", "\u2581"]
    llama_tokens(options.output / "llama", of_llama, text, strings)
    print(f"{len(text.encode())} bytes of text", file=sys.stderr)


if __name__ == "__main__":
    main()
