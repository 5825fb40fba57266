"""Random XML documents that fit a schema, but for a share of oddities."""

from __future__ import annotations

import random

import pyarrow as pa

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_SPACES = f' xmlns:p="urn:p" xmlns:q="urn:q" xmlns:xsi="{XSI}"'
_WORDS = ["a", "Grüße", "&amp;lt;", "&lt;&gt;", "&quot;", "b c", "x\ny", "x\r\ny", "\r", ":=/", "'"]
_ODD = ["&#13;", "&x;", "<!-- <n> -->", "<![CDATA[<]]>", "<?p i?>", ">", "<b>c</b>", "&", "<"]
_DECLARED = ["", "", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8'?>\n"]
_DAMAGE = [b"", b"<", b">", b"&", b"\xff", b"\0", b"</o>", b"<o>", b'"', b" ", b":", b"/"]


class Documents:
    """Makes documents for a schema; `odd` is how often something is unusual or wrong."""

    def __init__(self, schema: pa.Schema, pick: random.Random, odd: float) -> None:
        self.kind = pa.struct(list(schema))
        self.pick = pick
        self.odd = odd

    def document(self) -> bytes:
        """A document that is a row."""
        spaces = [_SPACES, _SPACES + ' xmlns="urn:d"']
        return self.finished(self.element("o", self.kind, self.spaces(spaces)))

    def envelope(self) -> bytes:
        """A document that has any number of rows."""
        pick = self.pick
        rows = [self.element("o", self.kind) for _ in range(pick.randrange(4))]
        if rows and self.strange():
            rows[-1] = rows[-1].replace("</", f"{rows[0]}</", 1)
        if pick.random() < 0.3:
            rows = [f"<all>{''.join(rows)}</all>"]
        name = pick.choice(["all", "o", "x:all"]) if self.strange() else "all"
        default = self.spaces(["", ' xmlns="urn:d"'] if self.strange() else [""])
        return self.finished(f"<{name}{_SPACES}{default}>{' '.join(rows)}</{name}>")

    def spaces(self, choices: list[str]) -> str:
        return "" if self.strange() else self.pick.choice(choices)

    def finished(self, body: str) -> bytes:
        pick = self.pick
        end = pick.choice(["", "", "\n", "\r\n", " "])
        whole = f"{pick.choice(_DECLARED)}{body}{end}".encode()
        if self.strange():
            at = pick.randrange(len(whole) + 1)
            whole = whole[:at] + pick.choice(_DAMAGE) + whole[at + pick.randrange(3) :]
        return whole

    def strange(self) -> bool:
        return self.pick.random() < self.odd

    def element(self, name: str, kind: pa.DataType, more: str = "") -> str:
        pick = self.pick
        name = f"{pick.choice('pq')}:{name}" if pick.random() < 0.1 else name
        attributes, text, children = more, "", []
        if pick.random() < 0.05 and name[0] != "o":
            attributes += pick.choice([' xsi:nil="true"', ' xsi:nil="1"', ' xsi:nil="false"'])
        if not pa.types.is_struct(kind):
            text = self.text(kind)
        else:
            for field in kind:
                if pick.random() < 0.3 and not more:
                    continue
                if field.name == "_VALUE":
                    text = self.text(field.type)
                elif field.name.startswith("_"):
                    attributes += self.attribute(field.name[1:], field.type)
                elif pa.types.is_list(field.type):
                    count = pick.randrange(4)
                    children += [self.element(field.name, field.type.value_type)] * count
                else:
                    children += [self.element(field.name, field.type)] * (1 + self.strange())
        if pick.random() < 0.1 or self.strange():
            children.append(self.element(pick.choice(["other", "nam", "names"]), pa.string()))
        if pick.random() < 0.1:
            attributes += pick.choice([' xmlns:z="urn:z"', self.attribute("other", pa.string())])
        if self.strange():
            attributes += pick.choice([' xmlns:xsi="urn:x"', ' q:nil="true"', ' xsi:nil="no"'])
        if self.strange():
            attributes += pick.choice([' p:unit="1"', ' xml:lang="de"', " p:lang='x'"])
        if self.strange():
            text += pick.choice(_ODD)
        if children and not pa.types.is_struct(kind) and not self.strange():
            children = []
        pick.shuffle(children)
        gap = pick.choice(["", "", "\n  ", "\r\n"])
        inner = f"{text}{gap}{gap.join(children)}{gap}" if children else text
        if not inner and pick.random() < 0.5:
            return f"<{name}{attributes}{pick.choice(['/', ' /'])}>"
        return f"<{name}{attributes}>{inner}</{name}{' ' if self.strange() else ''}>"

    def attribute(self, name: str, kind: pa.DataType) -> str:
        form = ' {}="{}"' if self.pick.random() < 0.8 else '\n{}="{}"'
        if self.strange():
            form = self.pick.choice([" {}='{}'", '  {}="{}"', ' {} = "{}"', ' {}="{}" '])
        value = self.text(kind)
        if not self.strange():
            value = "".join(c for c in value if c not in "\r\n'")
        return form.format(name, value)

    def text(self, kind: pa.DataType) -> str:
        pick = self.pick
        if pa.types.is_string(kind) or self.strange():
            return "".join(pick.choices(_WORDS, k=pick.randrange(3)))
        if pa.types.is_binary(kind):
            return pick.choice(["", "aGk=", " aGk= "])
        if pa.types.is_timestamp(kind):
            return pick.choice(["2026-01-01T00:00:00Z", "2026-01-01", "\n2026-01-01 10:00:00.5"])
        return pick.choice(["1", "22", " 3\n", "", " ", "\r\n4"])
