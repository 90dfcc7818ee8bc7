"""Forms of hostile programs: what begins them, what is repeated, and what ends them, whole or with an error.

An error matters: the parser then reads the text a second time, with the rules for messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

__all__ = ["FORMS", "Form"]


class Form(NamedTuple):
    """A program with a part that may be repeated."""

    before: str
    piece: str
    after: str

    def program(self, size: int) -> str:
        """Return a program of about `size` characters, or less if nothing is repeated."""
        return self.before + self.piece * (size // max(1, len(self.piece)) if self.piece else 0) + self.after


def pieces(text: str) -> list[str]:
    """Return what white space separates, with its escapes read; `·` is a space."""
    return [piece.replace("·", r"\x20").encode("raw_unicode_escape").decode("unicode_escape") for piece in text.split()]


def parts(text: str) -> list[list[str]]:
    """Return pieces in their parts, which `~` separates."""
    return [piece.split("~") for piece in pieces(text)]


ARGUMENTS = pieces(r"""
'' 'a' f'' f'{x}' f'{x}'·'a' u'a' b'a' 1+ - not· a< a<> a·is·not· a·and· a·or· a,b:= 1, a, a=1, *a, **a, True=1,
(a:=1), a:=1, [], a.b=1, a==b=c, a·if·b·else· a·if·b, lambda: lambda:1, await· a·for·a·in·b, [a·for·a·in·b], ..., 1**
1**- a@ 1e999, 1or· 0xfor· 1if·1else· #\n1, \n1, 1+\\\n \ufb01, a·not· ( [ { (( {1: x[ 9 1_ . ` $ * **
""")
LINES = pieces(r"""
f()\n f(); f(a=1,b='x')\n f(f'{x}')\n f('\\q')\n #\n \x0c\n \\\n pass\n a= a,b= *a,b= a, *a, a+= a: a.b= a[0]= (a)=
[a]= a· 1· a·'b'· print·x\n 1or·1\n a·is·1\n @f\n def·g():·f()\n def·g():\n class·A:·pass\n if·a:·f()\n if·a:· if·a:\n
async· await· return· with·a·as·b:·f()\n for·a·in·b:·f()\nelse:·f()\n import·a.b.c\n type(x)\n type·x·=·y\n match(x)\n
match·x\n case(x)\n match·-a\n f()=1\n 1+ a< 'a'(1)\n -> +-*/ ] \x0d \x00 \ufeff
""")
HEADS = parts(r"""
f~()~ f~(1)~ f(a~.b~) a~.b~=1 a~().b~=1 f(a~[0]~) f(a[~::,~]) f([~1,~]) f({~1,~}) f({~1:1,~}) f({~**a,~})
f([x·~for·x·in·y·~]) [x·for·x·in·y·~if·a·~] del·~a,~f() del·~a[0],~b with·~a·as·b,~b:·f() with·(~a·as·b,~b):·f()
with·(~a,~b):·f() for·~a,~·in·b:·f() f(lambda·~a,~:1) f(lambda·~a=1,~b=1:1) f(lambda·*,~a,~:1) f(lambda·~a,~1:1)
def·g(~a,~):·f() def·g(~a=1,~b):·f() def·g(~a,~1):·f() def·g(~a:b,~):·f() def·g(*,~a=1,~1):·f() class·A(~b,~):·pass
type·x[~a,~]·=·y def·x[~a:·int,~]():·y if·a:\n·f()\n~elif·a:\n·f()\n~ try:·f()\n~except·a:·f()\n~
try:·f()\nexcept·(~a,~):·f() match·x:\n~·case·1:·f()\n~ match·x:\n·case·~a,~:·f() match·x:\n·case·~1|~1:·f()
match·x:\n·case·A(~a=1,~):·f() match·x:\n·case·A(a=1,~1,~):·f() match·x:\n·case·a~.b~:·f()
match·x:\n·case·{~1:a,~}:·f() match·x:\n·case·~A(),~:·f() match·x:\n·case·~-1+1j|~1:·f() import·a~.a~
import·a~·.·\\\n·a~ from·a~.a~·import·b from·~.~a·import·b import·~a·as·b,~b from·a·import·(~a,~b) global·~a,~b
raise·~a·from·~b f(0x~f~) f(0b~1~) f(0.~0~1) f(1e~9~) f(~9~j) f(~9~.0) f('~\\x41~') f('~\\q~') f('~\\N{DIGIT·ONE}~')
f('\\N{~A~}') f('~\\777~') f('''~\n~''') f('''~\n~ f(~'~ f(~"~ if·x:\n~\t~f() #~a~
#·-*-·coding:·latin-1·-*-\n~\xe9()\n~ #·-*-·coding:·~a~ f(~a~) f(~\ufb01~) f(a~\u0301\u0323~) f(a~\u0f73~)
f(a~\uff9e\u0301~) f(a~\ufdfa~) f(f'~{x}~') f(f'~{x!r}~') f(f'~{x=}~') f(f'~{x:{y}}~') f(f'{x:~{y}~}') f(rf'~{x}~')
f(F'''~{x}\n~''') f(f'~{{{x}~') f(f'~{{}}~') f(f'~{x}~{') f(f'~{x}~{1·1}') f(f'~{x}~ f(f"~{f'{x}'}~")
f(f'''{f"~{x}~"}''') f(f'~\\q{x}~') f(f'~{(lambda:x)}~') f(f'{~a+~a}')
""")
AROUND = parts(r"""
(~) [~] {~} {1:~} f(~) f(a=~) f(*~) f(**~) f(a,·~) a[~] (lambda:~) (lambda·a=~:b) (a:=~) (not·~) (a<~) (a·if·a·else·~)
(1·if·~·else·1) (x·for·x·in·~) {a:b·for·c·in·~} {*~} (yield·~) f(a=b=~) f(a=[{b:(~)}])
f(a=[{b·for·c·in·(lambda:(~))}]) a[b:(c·if·d·else[~])]
""")
PLACES = parts(r"""
~\n ~=1\n ~:b=1\n ~+=1\n del·~\n for·~·in·b:·pass\n with·~:·pass\n with·a·as·~:·pass\n match·~\n [x·for·~·in·b]\n
while·~:·pass\n @~\ndef·f():·pass\n
""")
BLOCKS = pieces("if·x: while·x: for·x·in·y: with·x: with·(x·as·y): def·f(): class·f: try: async·for·x·in·y:")


def nested() -> Iterator[Form]:
    """Yield brackets in one another, around a long list, and in many lines."""
    for opening, closing in AROUND:
        levels = 48 // sum(map(opening.count, "([{"))
        for inner in ("1", "1 1", "1=1"):
            yield Form(opening * levels, "1,", inner + closing * levels)
        yield Form(opening * levels, "1+", "")
        for before, after in PLACES:
            line = before + opening * levels + "a" + closing * levels + after
            yield from (Form("", line, ending) for ending in ("", "1 1"))


def blocks() -> Iterator[Form]:
    """Yield blocks in one another, around many lines."""
    for head, ending in product(BLOCKS, ("", "1 1")):
        yield Form("".join(f"{' ' * k}{head}\n" for k in range(95)), " " * 95 + "f()\n", " " * 95 + ending)
        yield Form("".join(f"{' ' * k}{BLOCKS[k % 7]}\n" for k in range(95)) + " " * 95, "f();", ending)


FORMS = list(
    dict.fromkeys(
        [
            *(Form("f(", piece, ending) for piece, ending in product(ARGUMENTS, ("x)", "1 1)", "=)", ""))),
            *(Form("", line, ending) for line, ending in product(LINES, ("", "f()", "1 1", "f("))),
            *(Form(before, piece, after + ending) for (before, piece, after), ending in product(HEADS, ("", " 1 1"))),
            *blocks(),
            *nested(),
        ]
    )
)
