"""C++ source as text, for checks that need no compiler."""

import re

# What is not code. A quote behind a digit or letter is a separator (0xff'ffff), not a character.
NOT_CODE = re.compile(
    r"""//(?:[^\\\n]|\\.|\\\n)*"""
    r"""|/\*.*?\*/"""
    r"""|(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)\""""
    r"""|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*\""""
    r"""|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL)


def code_of(text):
    """The same number of lines and columns, with comments and literals blanked."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
