"""How do small verbs read their options? argparse whose complaints are ours: one line, and exit code 2."""

import argparse
from typing import NoReturn

from lit_attn.errors import UserError


class Parser(argparse.ArgumentParser):
    """`--help` prints and leaves; a mistake is a UserError that names the way to the help."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}. See {self.prog} --help.")
