"""`python -m lit_attn` is `lit-attn`."""

from lit_attn.cli.main import entry

if __name__ == "__main__":
    entry()
