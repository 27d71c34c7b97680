"""The texts of the tokenizer goldens: a small corpus to train on and nasty strings to encode.

Only code points assigned in Unicode 14, so that every Unicode table in use agrees about them.
Characters that cannot be seen, or that an editor could normalise, are written as escapes.
"""

from __future__ import annotations

import random
import unicodedata

ENGLISH = """\
In the beginning was the word, and the word was with the people; and it was good.
All human beings are born free and equal in dignity and rights. They are endowed with reason and \
conscience and should act towards one another in a spirit of brotherhood.
I'm sure they'll say it's fine, but we've said we don't and they're not. I'd go; you'd stay.
The token stream is read from left to right, the longest merges are not always the best ones.
She said: "Where there's a will, there's a way!" -- and then (after a pause) added: "Isn't there?"
The year 2024 had 366 days; 1,234,567.89 is a number and 3.14159 is near to pi. Call 555-0100.
"""

CODE = """\
def main(argument, value=None):
    if value is None:
        return [x * 2 for x in argument if x != 0]
    print("value: {}".format(value))

int main(int argc, char** argv) {
\tfor (int i = 0; i < argc; ++i) {
\t\tprintf("%d: %s\\n", i, argv[i]);
\t}
\treturn 0;
}
{"role": "user", "content": "hello", "id": 12345}
"""

LANGUAGES = """\
Alle Menschen sind frei und gleich an W\u00fcrde und Rechten geboren. Gr\u00fc\u00dfe aus K\u00f6ln.
Tous les \u00eatres humains naissent libres et \u00e9gaux en dignit\u00e9 \
et en droits. \u00c7a va\u202f?
Todos los seres humanos nacen libres e iguales. \u00bfQu\u00e9 tal, se\u00f1or?
Все люди рождаются свободными и равными в своём достоинстве и правах.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.
يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ
人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
T\u1ea5t c\u1ea3 m\u1ecdi ng\u01b0\u1eddi sinh ra \u0111\u1ec1u \u0111\u01b0\u1ee3c t\u1ef1 do.
\U0001f600 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f680
"""

CORPUS = ENGLISH * 3 + CODE * 2 + LANGUAGES * 2

EMPTY_AND_SPACES = [
    "",
    " ",
    "  ",
    "   ",
    " " * 7,
    " " * 33,
    "\n",
    "\n\n",
    "\n\n\n\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n\r",
    "\t",
    "\t\t",
    " \t ",
    " \n",
    "\n ",
    " \n ",
    "  \n  \n  ",
    "\t\n\t",
    "a ",
    " a",
    "  a",
    "   a   b",
    "a  b   c    d",
    "a\nb",
    "a\n\nb",
    "a \n b",
    "a\n  b",
    "a  \n\n  b  \n",
    "a\r\nb\r\n",
    "a\t\tb",
    "\ta",
    " \ta",
    "\t a",
    "x  ",
    "x \n",
    "x\n ",
    "end.\n\nNext",
    "end.  \n\n\tNext",
    "if x:\n    y\n        z\n",
    "!\n\n!\r\n!",
    "...\n...\n",
    "a\u00a0b",
    "\u00a0\u00a0a",
    "a\u2003b\u2003\u2003c",
    "a\u3000b \u3000c",
    "a\u2028b\u2029c",
    "a\u0085b \u0085",
    "a\u000bb\u000cc",
    "a\u200bb\u200b ",
    "a\u180eb \u180ec",
    "a\ufeffb",
    "\ufeffa",
    "a\u202fb\u205fc\u1680d",
    "1 \n2\n\n 3",
]

CONTROL = [
    "\u0000",
    "a\u0000b",
    "\u0001\u0002\u0003",
    "a\u001b[31mred\u001b[0m",
    "\u007f",
    "a\u001cb\u001db\u001eb\u001fb",
    "\u0080\u009f",
    "soft\u00adhyphen",
    "\ue000\uf8ff",
    "\ufffd\ufffc",
    "\U000e0001\U000e0020",
]

CONTRACTIONS = [
    "I'm",
    "I'M you'RE we'Ve he'D she'LL it'S don'T",
    "i'm you're we've he'd she'll it's don't",
    "'s",
    "'S",
    " 's",
    "''s",
    "'sabre",
    "'SABRE",
    "'revenge 'velvet 'llama 'molly 'dog 'tis",
    "rock'n'roll",
    "o'clock O'Reilly l'\u00e9t\u00e9 d'accord",
    "they'll've",
    "it\u2019s they\u2019re",
    "'\u017f it'\u017fo",
    "'\u212a 'K",
    "'l 'L 'lL 'Ll 'r 'e 'v",
    "a's1's!'s\n's",
    "'''''",
    "'t't't",
    "\"'d\"",
    "x' s",
]

WORDS_AND_CODE = [
    "Hello world",
    "Hello, world!",
    "hello",
    " hello",
    "HELLO",
    "HeLLo WoRLD",
    "antidisestablishmentarianism",
    "a" * 50,
    "ab" * 25,
    "the the the the",
    "thethethe",
    "Hello world's 123 \u6bd5\u8001\u5e08",
    "In the beginning was the word, and the word was with the people",
    "snake_case camelCase PascalCase kebab-case SCREAMING_SNAKE",
    "__init__ ___ _a _1",
    "foo.bar(baz)[0]->qux::quux<T>;",
    "a+b=c; a+=b; a==b; a!=b; a<=b; a&&b; a||b",
    "/* comment */ // comment\n# comment",
    "#include <vector>\n\nint main() {\n\treturn 0;\n}\n",
    "def f(x):\n    return x ** 2  # square\n\n\nclass A:\n    pass\n",
    "{\"a\": [1, 2, {\"b\": null}], \"c\": \"d\\n\"}",
    "<html><body class=\"x\">&nbsp;</body></html>",
    "https://example.com/path?q=1&r=a%20b#frag",
    "user@example.com",
    "C:\\Windows\\System32\\",
    "$HOME/.config",
    "\\alpha \\frac{a}{b} $x^2$",
    "!!!",
    "!!!???...",
    "?!",
    " !",
    "! a",
    "(a)(b)",
    "--- *** === +++",
    "- item\n- item\n  - sub\n",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "\"quoted\" 'single' `tick` \u201ccurly\u201d \u2018single\u2019 \u00abguillemets\u00bb",
    "em\u2014dash en\u2013dash ellipsis\u2026",
    "\u00a7 \u00b6 \u2020 \u2021 \u2022 \u2122 \u00ae \u00a9",
    "\u20ac5 $5 \u00a35 \u00a55 5\u00a2",
    "x\u2080 + y\u00b2 \u2260 \u221e \u2202f/\u2202x \u222b",
    "\u0120 \u0120hello \u010a",
    "~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./",
]

NUMBERS = [
    "0",
    "1",
    "12",
    "123",
    "1234",
    "12345",
    "123456",
    "1234567890",
    "12345678901234567890",
    "3.14159",
    "1,234,567.89",
    "1e-5 1E+10 0x1F 0b101",
    "2024-01-31T23:59:59Z",
    " 1 22 333 4444",
    "a1b22c333d4444",
    "1a 22b 333c",
    "1st 2nd 3rd 4th",
    "v1.2.3-rc4",
    "-1 +2 \u22123",
    "100% $1.00 #1",
    "\u0661\u0662\u0663\u0664",
    "\u0967\u0968\u0969\u096a",
    "\uff11\uff12\uff13\uff14",
    "\u2160\u2161\u2162\u2163 \u216b",
    "\u00bd \u00bc \u00be\u00bd\u00bc\u2153",
    "x\u00b2y\u00b3z\u00b9",
    "\u2460\u2461\u2462\u2463\u2464",
    "\u4e00\u4e8c\u4e09\u56db 10\u5186",
    "\U0001d7ce\U0001d7cf\U0001d7d0\U0001d7d1",
    "1\u20e32\u20e3",
    "1\u0301234",
]

SCRIPTS = [
    "Gr\u00fc\u00dfe aus K\u00f6ln, \u00c4rger in \u00d6sterreich",
    "GRUSSE STRA\u1e9eE stra\u00dfe",
    "caf\u00e9 na\u00efve co\u00f6perate \u00e6on \u0153uvre",
    "\u00bfQu\u00e9 tal? \u00a1Hola!",
    "Za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144",
    "P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd k\u016f\u0148",
    "\u0130stanbul \u0131\u015f\u0131k I\u0307",
    "T\u1ea5t c\u1ea3 m\u1ecdi ng\u01b0\u1eddi",
    "Все люди рождаются свободными",
    "СЪЕШЬ ещё этих булок",
    "Όλοι οι άνθρωποι",
    "\u03b1\u03b2\u03b3 \u0391\u0392\u0393 \u03c2",
    "שלום עולם",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "مرحبا بالعالم",
    "\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f",
    "\u0627\u0644\u0639\u062f\u062f \u0661\u0662\u0663 \u0641\u064a",
    "abc \u200f\u0634\u0644\u0627\u0645\u200e def",
    "\u202bRTL\u202c \u2066iso\u2069",
    "नमस्ते दुनिया",
    "क्षत्रिय श्री",
    "\u0b9a\u0bc6\u0ba9\u0bcd\u0ba9\u0bc8 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "สวัสดีชาวโลก",
    "ที่นี่ น้ำ",
    "你好,世界!",
    "人人生而自由,在尊严和权利上一律平等。",
    "中文English混排123测试",
    "「日本語」のテキスト。",
    "カタカナ ひらがな ﾊﾝｶｸ",
    "\u304b\u3099\u304d\u309a \u304c",
    "안녕하세요 세계",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u0531\u0580\u0587",
    "\u13a0\u13b5\u13eb \u1f50\u03c0\u1f79",
    "\u1780\u17d2\u1798\u17c2\u179a \u0f56\u0f7c\u0f51",
    "\U00010330\U00010331 \U00010400\U00010428",
    "\U00020000\U0002a6d6 \U00030000",
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8",
    "\uff28\uff45\uff4c\uff4c\uff4f \uff01",
    "\ufb01\ufb02 \u01c4 \u0132",
    "\u212b \u2126 \u212a",
    "\u1e9b\u0323",
    "\ufdfa \u0950",
    "\ua9c0 \ua8e0 \u1cd0",
]

COMBINING = [
    "e\u0301",
    "cafe\u0301",
    "cafe\u0301s and re\u0301sume\u0301s",
    "n\u0303ota man\u0303ana",
    "A\u030a \u00c5 \u212b",
    "o\u0302\u0323 \u1ed9 o\u0323\u0302",
    "\u0301",
    " \u0301",
    "\u0301a",
    "a \u0301b",
    "!\u0301",
    "!!\u0301\u0301!!",
    "1\u0301",
    "\n\u0301",
    "a\u0301\u0302\u0303\u0304\u0305",
    "Z\u0351\u036b\u0343a\u0328\u0310l\u0352\u034eg\u030c\u0327o\u0321\u0316",
    "q\u0307\u0323 q\u0323\u0307",
    "\u1e0b\u0323 d\u0323\u0307",
    "\u0344 \u0340 \u0341",
    "\u0958 \u0915\u093c",
    "\u0cca\u0ccb \u0d4a",
    "\u2adc \u2add\u0338",
    "\uf900 \ufa0e \ufa10",
    "\U0001d15e \U0001d157\U0001d165",
    "a\u20dd b\u20e3",
    "\u0600123 \u06dd5",
    "x\u0338=\u0338",
    "'\u0301s 's\u0301",
    "\u1100\u1161\u11a8 \uac01 \uac00\u11a8",
    "\u0f71\u0f72 \u0f73",
    "a\u034fb a\u200db a\u200cb",
    "_\u0301_ (\u0301)",
]

EMOJI = [
    "\U0001f600",
    "\U0001f600\U0001f601\U0001f602",
    " \U0001f600 \U0001f600",
    "hi\U0001f600there",
    "\U0001f44d\U0001f3fd",
    "\U0001f44d\U0001f3fb\U0001f44d\U0001f3ff",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f9d1\U0001f3fe\u200d\U0001f680",
    "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f3f4\u200d\u2620\ufe0f",
    "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "\u2764 \u2764\ufe0f \u2764\ufe0e",
    "1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u263a\u263b \u2660\u2663 \u2713\u2717",
    "\U0001f680\n\U0001f680\r\n\r\n",
    "\U0001fae0\U0001faf6\U0001f9cc",
    "\u231a\u23f0\u25b6\ufe0f\u2b50",
]

SPECIAL = [
    "<|endoftext|>",
    "a<|endoftext|>b",
    " <|endoftext|> ",
    "<|endoftext|><|endoftext|>",
    "<|endoftext|",
    "<<|endoftext|>>",
    "<|ENDOFTEXT|>",
    "<|endoftext|>\n\n<|endoftext|>\n",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou're a helper.<|im_end|>\n",
    "<think>\n\n</think>\n\nYes",
    "<think>a</think>b<tool_call>{}</tool_call>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|begin_of_text|>",
    "a <|eot_id|> b",
    "Hello world <|reserved_0|>1<|reserved_1|>",
    "xyzzyplugh xyzzyplughs qwertzuiop  qwertzuiop",
    " xyzzyplugh\n xyzzyplugh",
    "\u6e2c\u8a66\u8a66\u6e2c \u6e2c\u8a66",
    "<left> a  <left>  b\t<left>\n<left>",
    "a  <right>  b<right>\n\n c<right>",
    "a  <both>  b \n <both> \n c",
    "<both><both>  <left>  <right>  ",
    "word myword word myword2 word. (word) word_ word-word",
    "word",
    "words",
    "Word WORD",
    "\u00e9word word\u00e9 \u4e2dword \u0301word word\u0301",
    "1word word1 _word",
    "e\u0323clair \u1eb9clair E\u0323CLAIR",
    "une e\u0323clairs",
    "n\u0303ota \u00f1ota",
    "an\u0303ota",
    "<a><b><a><b><c>",
    "<a><b>",
    "<b><a>",
    "<a> <b>",
    "<a",
    "\uff5cfim\u2581begin\uff5c x \uff5cfim\u2581begin\uff5c",
    "two words and two  words, two wordsy",
    "  <left>\u00a0<left>\u3000<left>",
    "<wordleft> a <wordleft>b  <wordleft>",
    "<left>word<right> word <both>",
]


def fuzz_texts(count: int, seed: int) -> list[str]:
    """Random strings of nasty pieces; the same for every tokenizer."""
    pieces = [" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'", "a", "The", " the", "ing", "\u00e9"]
    pieces += ["e\u0301", "\u0301", "1", "12", "3456", "\u0663", "\u00bd", ".", "...", "!?", "_"]
    pieces += ["\u4f60\u597d", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e17\u0e35\u0e48"]
    pieces += ["\U0001f600", "\u200d", "\ufe0f", "\u00a0", "\u3000", "\u2028", "\u0000", "\u05e9"]
    pieces += ["<|endoftext|>", "<|im_end|>", "word", "<left>", "<right>", "<both>", "<a>"]
    pieces += ["<a><b>"]
    generator = random.Random(seed)
    return ["".join(generator.choices(pieces, k=generator.randint(2, 12))) for _ in range(count)]


def all_texts() -> list[str]:
    texts = EMPTY_AND_SPACES + CONTROL + CONTRACTIONS + WORDS_AND_CODE + NUMBERS + SCRIPTS
    texts += COMBINING + EMOJI + SPECIAL + fuzz_texts(48, seed=14)
    texts = list(dict.fromkeys(texts))
    for text in texts + [CORPUS]:
        for character in text:
            if unicodedata.category(character) in ("Cn", "Cs"):
                raise SystemExit(f"U+{ord(character):04X} is not assigned in Unicode 14")
    return texts
