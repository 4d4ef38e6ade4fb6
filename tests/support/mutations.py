"""Draws mutations of C++ source: single small changes of meaning that a test should notice.

A mutation replaces one stretch of a file's text. Where to change what is decided on tokens, not on a syntax tree, and leans
on how clang-format writes (a comparison has spaces around it, a template's bracket has not). What cannot be told apart by a
test of behaviour is left alone: comments, strings, preprocessor lines, assertions and sanity checks, log messages, throws,
capacities that are reserved, enumerators, and `if (a > b) b = a` as against `>=`."""
import collections
import random
import re

Mutation = collections.namedtuple("Mutation", "path line column start end old new kind")
Mutation.__doc__ = "Replace text[start:end], which is `old`, by `new`; line and column (from 1) are where it begins."

TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\\\n]|\\.)*|/\*.*?\*/)
  | (?P<raw>(?:u8|u|U|L)?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*")
  | (?P<char>(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+')
  | (?P<preprocessor>^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<number>\.?\d(?:'?\w|\.|(?<=[eEpP])[+-])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<op><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!=<>?:;,.(){}\[\]])
  | (?P<space>\s+)
  | (?P<other>.)""", re.VERBOSE | re.DOTALL | re.MULTILINE)

Token = collections.namedtuple("Token", "kind text start end")

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "&": "|", "|": "&"}
WORD_SWAPS = {"true": "false", "false": "true", "min": "max", "max": "min"}
# Calls (their arguments too) and functions (their bodies too) that say or assert something, or only make room.
SAYING = re.compile(r"^(static_assert|assert|Log[A-Z]\w*|reserve|capacity|shrink_to_fit|alignas|sizeof|\w*[pP]refetch)$")
CHECKING = {"SanityCheck", "FindBroken"}
KEYWORDS = {"return", "throw", "delete", "using", "typedef", "namespace", "template", "if", "for", "while", "switch", "case",
            "default", "do", "else", "goto", "new", "public", "private", "protected", "friend", "static", "const", "constexpr",
            "auto", "co_return", "co_yield", "extern", "struct", "class", "enum", "union", "break", "continue", "try", "catch"}
EMPTY = {"{}", "0", "ESPANK_SUCCESS", "SQLITE_OK", "false", "true", "nullptr", "std::nullopt", "*this", "Status()", "\"\"", "std::string()", ""}


class Source:
    """One file as tokens; `mutations` lists every mutation of it, in the order of the text."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.tokens = [Token(m.lastgroup if m.lastgroup != "delimiter" else "raw", m[0], m.start(), m.end())
                       for m in TOKEN.finditer(text) if m.lastgroup not in ("comment", "space", "preprocessor")]
        self.partner = self._pair()
        self.scope = self._scopes()
        self.excluded = self._exclude()

    def _pair(self):
        partner, open_ = {}, []
        closing = {")": "(", "]": "[", "}": "{"}
        for i, t in enumerate(self.tokens):
            if t.kind != "op":
                continue
            if t.text in "([{":
                open_.append(i)
            elif t.text in closing:
                while open_ and self.tokens[open_[-1]].text != closing[t.text]:
                    open_.pop()  # an #if with two heads
                if open_:
                    partner[i] = open_.pop()
                    partner[partner[i]] = i
        return partner

    def _text(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def _brace_kind(self, i, outer):
        """Is the { at i that of a `type` (or namespace), of a `block` of statements, of an `enum` or of an `init`ialiser?"""
        before, j = [], i - 1
        while j >= 0 and self._text(j) not in (";", "{", "}"):
            if self._text(j) in (")", "]") and j in self.partner:
                before.append(self._text(j))
                j = self.partner[j]
            before.append(self._text(j))
            j -= 1
        before.reverse()
        while before[:1] == ["template"]:
            depth, k = 0, 1
            while k < len(before):
                depth += {"<": 1, ">": -1, ">>": -2}.get(before[k], 0)
                k += 1
                if depth <= 0:
                    break
            before = before[k:]
        while before[:1] in (["inline"], ["public"], ["private"], ["protected"], [":"]):
            before = before[1:]
        if before[:1] == ["enum"]:
            return "enum"
        if before[:1] and before[0] in ("class", "struct", "union", "namespace", "extern") and "=" not in before and (
                "(" not in before or before[0] != "struct"):
            return "type"
        last = before[-1] if before else ""
        if last in (")", "]", "const", "noexcept", "override", "final", "mutable", "else", "do", "try"):
            return "block"
        if ")" in before and "->" in before and before.index(")") < len(before) - 1 - before[::-1].index("->"):
            return "block"
        if not before or last == ":":
            return "init" if outer == "init" else "block"
        return "init"

    def _scopes(self):
        """The kind of the innermost brace around each token; outside of all, `type`."""
        scope, open_ = [], ["type"]
        for i, t in enumerate(self.tokens):
            if t.text == "}" and t.kind == "op" and len(open_) > 1:
                open_.pop()
            scope.append(open_[-1])
            if t.text == "{" and t.kind == "op":
                open_.append(self._brace_kind(i, open_[-1]))
        return scope

    def _until(self, i, what):
        """The index of the next token `what` at the depth of token i."""
        while i < len(self.tokens) and self._text(i) != what:
            if self._text(i) in ("(", "[", "{") and self.tokens[i].kind == "op":
                if i not in self.partner:
                    return None
                i = self.partner[i]
            elif self._text(i) in (")", "]", "}") and self.tokens[i].kind == "op":
                return None
            i += 1
        return i if i < len(self.tokens) else None

    def _exclude(self):
        out = set()
        for i, t in enumerate(self.tokens):
            if t.kind != "word":
                continue
            if SAYING.match(t.text) and self._text(i + 1) == "(" and i + 1 in self.partner:
                out.update(range(i, self.partner[i + 1] + 1))
            elif t.text in CHECKING and self._text(i + 1) == "(" and i + 1 in self.partner:
                j = self.partner[i + 1] + 1
                while self._text(j) in ("const", "noexcept", "override"):
                    j += 1
                if self._text(j) == "{" and j in self.partner:
                    out.update(range(i, self.partner[j] + 1))
            elif t.text in ("throw", "using", "typedef"):
                end = self._until(i, ";")
                out.update(range(i, (end or i) + 1))
            elif t.text == "operator":
                out.update((i, i + 1, i + 2))
            elif t.text == "enum":
                j = i
                while j < len(self.tokens) and self._text(j) not in ("{", ";"):
                    j += 1
                if self._text(j) == "{" and j in self.partner:
                    out.update(range(i, self.partner[j] + 1))
            elif t.text == "for" and self._text(i + 1) == "(" and i + 1 in self.partner:
                # How a loop goes on: anything else there never ends.
                semicolon = self._until(i + 2, ";")
                semicolon = semicolon and self._until(semicolon + 1, ";")
                if semicolon:
                    out.update(range(semicolon, self.partner[i + 1]))
            elif t.text == "if" and self._text(i + 1) == "(" and i + 1 in self.partner:
                close = self.partner[i + 1]
                inside = self.text[self.tokens[i + 1].end:self.tokens[close].start].strip()
                best = re.match(r"(\S.*?) [<>]=? (\S.*)$", inside)
                end = self._until(close + 1, ";")
                if best and end:
                    then = self.text[self.tokens[close].end:self.tokens[end].start].strip()
                    if then in (f"{best[1]} = {best[2]}", f"{best[2]} = {best[1]}"):
                        out.update(range(i + 2, close))
        return out

    def _spaced(self, i):
        t = self.tokens[i]
        return self.text[t.start - 1:t.start].isspace() and self.text[t.end:t.end + 1].isspace()

    def _mutation(self, i, j, new, kind):
        """Of the tokens i up to and with j."""
        start, end = self.tokens[i].start, self.tokens[j].end
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        return Mutation(self.path, line, column, start, end, self.text[start:end], new, kind)

    def mutations(self):
        out = []
        for i in range(len(self.tokens)):
            if i in self.excluded:
                continue
            out += self._operators(i)
            out += self._values(i)
            if self.scope[i] == "block":
                out += self._statements(i)
        return out

    def _operators(self, i):
        t = self.tokens[i]
        if t.kind == "op" and t.text in SWAPS and self._spaced(i):
            sides = {self.tokens[k].kind for k in (i - 1, i + 1) if 0 <= k < len(self.tokens)}
            if t.text in "+-" and sides & {"string", "raw"} or self.scope[i] == "type" and t.text in ("&", "*", "&&"):
                return []
            return [self._mutation(i, i, SWAPS[t.text], "operator")]
        if t.text in ("++", "--") and self.scope[i] == "block":
            return [self._mutation(i, i, "--" if t.text == "++" else "++", "operator")]
        ignores = [self._text(k) for k in range(i - 3, i)] == ["(", "void", ")"]  # (void)!read(...)
        if t.text == "!" and t.kind == "op" and not ignores and not (self.tokens[i - 1].kind in ("word", "number") and
                                                                     self._text(i - 1) not in KEYWORDS):
            return [self._mutation(i, i, "", "negation removed")]
        if t.text in ("if", "while") and self.scope[i] == "block" and self._text(i + 1) == "(" and i + 1 in self.partner:
            close = self.partner[i + 1]
            first = i + 2
            init = self._until(first, ";")
            if init is not None and init < close:
                first = init + 1
            declares = self._until(first, "=")
            if first < close and not (declares is not None and declares < close) and self._text(first) not in ("true", "!"):
                condition = self._mutation(first, close - 1, "", "condition negated")
                return [condition._replace(new=f"!({condition.old})")]
        return []

    def _values(self, i):
        t = self.tokens[i]
        if t.kind == "word" and t.text in ("true", "false"):
            return [self._mutation(i, i, WORD_SWAPS[t.text], "constant")]
        if t.kind == "word" and t.text in ("min", "max") and self._text(i - 1) == "::" and self._text(i + 1) == "(" and (
                self._text(i + 2) != ")"):
            return [self._mutation(i, i, WORD_SWAPS[t.text], "bound")]
        if t.kind != "number":
            return []
        pure = self._text(i - 1) == "=" and self._text(i - 2) in (")", "const", "override", "noexcept")
        template = self._text(i + 1) in (">", ">>") and not self._spaced(i + 1) or self._text(i - 1) == "<" and not self._spaced(i - 1)
        if pure or template:
            return []
        number = re.match(r"(0[xX][\da-fA-F']+|\d[\d']*)([uUlLzZ]*|[a-z]+)$", t.text)
        if number:
            digits = number[1].replace("'", "")
            base = 16 if digits[:2] in ("0x", "0X") else 8 if re.match(r"0[0-7]+$", digits) else 10
            value = int(digits, base)
            new = value + 1 if value <= 256 or base == 8 else value * 2  # a buffer of one byte more does not show
            return [self._mutation(i, i, {16: hex, 8: lambda v: f"0{v:o}", 10: str}[base](new) + number[2], "constant")]
        number = re.match(r"([\d.]+(?:[eE][+-]?\d+)?)([fFlL]?)$", t.text)
        if number:
            value = float(number[1])
            return [self._mutation(i, i, f"{value * 2 if value else 1.0}{number[2]}", "constant")]
        return []

    def _statements(self, i):
        before = self._text(i - 1)
        if before == ")":
            head = self.partner.get(i - 1, 0) - 1
            starts = self._text(head) in ("if", "while", "for") or self._text(head) == "constexpr"
        else:
            starts = before in (";", "{", "}", "else", "do", "")
        t = self.tokens[i]
        if not starts:
            return []
        if t.text in ("break", "continue") and self._text(i + 1) == ";":
            return [self._mutation(i, i + 1, "{}", "statement deleted")]
        if t.text == "return":
            end = self._until(i, ";")
            if end is None or end == i + 1:
                return []
            value = self._mutation(i + 1, end - 1, "{}", "return value")
            return [] if value.old in EMPTY or self.excluded.intersection(range(i, end)) else [value]
        first = i
        if t.text == "(" and self._text(i + 1) == "void" and self._text(i + 2) == ")":
            first = i + 3
        elif t.kind != "word" or t.text in KEYWORDS:
            if t.text != "*":
                return []
            first = i + 1
        j, last = first, None
        while j < len(self.tokens):  # a chain: name . name -> name ( ... ) [ ... ]
            text = self._text(j)
            if self.tokens[j].kind == "word":
                if last == "word" or text in KEYWORDS:
                    return []  # a declaration
                last = "word"
            elif text in ("(", "[") and last in ("word", "closed") and j in self.partner:
                j = self.partner[j]
                last = "closed"
            elif text in (".", "->", "::"):
                last = "dot"
            else:
                break
            j += 1
        text = self._text(j)
        if self.excluded.intersection(range(i, j)):
            return []
        if text == ";" and last == "closed" and self._text(j - 1) == ")":
            return [self._mutation(i, j, "{}", "call deleted")]
        if re.match(r"([-+*/%&|^]|<<|>>)?=$", text) and last in ("word", "closed"):
            end = self._until(j, ";")
            if end is not None:
                return [self._mutation(i, end, "{}", "assignment deleted")]
        return []


def of_text(path, text):
    return Source(path, text).mutations()


def drawn(files, seed):
    """All mutations of `files` ({path: text}) in the order in which they are drawn: uniformly over what there is to
    change, no two on one line until every line has had its turn."""
    everything = [m for path in sorted(files) for m in of_text(path, files[path])]
    random.Random(seed).shuffle(everything)
    first, later, lines = [], [], set()
    for mutation in everything:
        place = (mutation.path, mutation.line)
        (later if place in lines else first).append(mutation)
        lines.add(place)
    return first + later
