"""How is a question about a picture answered in steps? MAC: control, read and write, repeated.

Source: Hudson and Manning 2018, "Compositional Attention Networks for Machine Reasoning", as the study of alignment functions
ran it (see `nn.mac`). Deviations: questions of one picture share its knowledge base, so that it is computed once; while its
dropout is active they share that mask, too, as long as a step lasts. Padding is masked, which the PyTorch ports leave out.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Description, Setting
from lit_attn.nn.mac import ControlUnit, ReadUnit, WriteUnit

EMBEDDING_RANGE = 1.0
FORGET_BIAS = 1.0


class PictureInput(nn.Module):
    """A grid of features to the knowledge base: twice dropout, a convolution and ELU."""

    def __init__(self, grid_dim: int, dim: int, kernel: int, dropout: float) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise UserError(f"The kernel of MAC's convolutions has a middle cell: it must be odd, got kernel={kernel}.")
        self.convolutions = nn.ModuleList(
            nn.Conv2d(width, dim, kernel, padding=kernel // 2) for width in (grid_dim, dim)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, grid: Float[Tensor, "b f y x"]) -> Float[Tensor, "b k d"]:
        """Cells row by row."""
        for convolution in self.convolutions:
            grid = F.elu(convolution(self.dropout(grid)))
        return grid.flatten(2).transpose(1, 2)


class QuestionInput(nn.Module):
    """Token ids to contextual words and a vector of the whole question: a bidirectional LSTM."""

    def __init__(self, vocab_size: int, word_dim: int, dim: int, word_dropout: float, question_dropout: float) -> None:
        super().__init__()
        if dim % 2:
            raise UserError(f"MAC's width is that of two directions of an LSTM: dim must be even, got {dim}.")
        self.embed = nn.Embedding(vocab_size, word_dim, padding_idx=0)
        self.lstm = nn.LSTM(word_dim, dim // 2, batch_first=True, bidirectional=True)
        self.word_dropout, self.question_dropout = nn.Dropout(word_dropout), nn.Dropout(question_dropout)

    def forward(
        self, tokens: Int[Tensor, "c t"], token_mask: Bool[Tensor, "c t"]
    ) -> tuple[Float[Tensor, "c t d"], Float[Tensor, "c d"]]:
        """Words, zero on padding, and the question: last state of either direction."""
        lengths = token_mask.sum(-1).cpu()
        embedded = self.word_dropout(self.embed(tokens))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        words, _ = pad_packed_sequence(states, batch_first=True, total_length=tokens.shape[1])
        return words, self.question_dropout(torch.cat([last[0], last[1]], -1))


class MacCell(nn.Module):
    """The steps themselves."""

    def __init__(
        self,
        dim: int,
        steps: int,
        read_alignment: str,
        control_alignment: str,
        *,
        self_attention: bool,
        memory_gate: bool,
        recurrent_control: bool,
        swapped_control: bool,
        read_dropout: float,
        memory_dropout: float,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise UserError(f"MAC needs at least one step, got steps={steps}.")
        self.steps = steps
        self.question = nn.Linear(dim, dim)
        self.control = ControlUnit(dim, steps, control_alignment, recurrent_control, swapped_control)
        self.read = ReadUnit(dim, steps, read_alignment, read_dropout)
        self.write = WriteUnit(dim, steps, self_attention, memory_gate)
        self.first_memory = nn.Parameter(torch.randn(dim))
        self.first_control = nn.Parameter(torch.randn(dim)) if recurrent_control else None
        self.memory_dropout = memory_dropout

    def forward(
        self,
        question: Float[Tensor, "c d"],
        words: Float[Tensor, "c t d"],
        word_mask: Bool[Tensor, "c t"],
        knowledge: Float[Tensor, "b k d"],
        owner: Int[Tensor, " c"],
    ) -> Float[Tensor, "c d"]:
        """The memory after the last step."""
        first = question if self.first_control is None else self.first_control.expand_as(question)
        controls, memories = [first], [self.first_memory.expand_as(question)]
        # One mask for all steps: a feature of the memory is either there or not, for the whole of a question.
        mask = F.dropout(torch.ones_like(question), self.memory_dropout, self.training)
        asked = torch.tanh(self.question(question))
        cells = knowledge.index_select(0, owner)
        renewed = self.training and self.read.dropout.p > 0
        looked = self._look(knowledge, owner)
        for step in range(self.steps):
            if renewed and step:
                looked = self._look(knowledge, owner)
            wish = self.control.ask(step, asked, controls[-1])
            control = self.control(wish, words, word_mask)
            info = self.read(control, memories[-1] * mask, cells, looked)
            memories.append(self.write(wish, control, info, controls, memories))
            controls.append(control)
        return memories[-1]

    def _look(
        self, knowledge: Float[Tensor, "b k d"], owner: Int[Tensor, " c"]
    ) -> tuple[Float[Tensor, "c k d"], Float[Tensor, "c k d"]]:
        projected, own = self.read.look(knowledge)
        return projected.index_select(0, owner), own.index_select(0, owner)


class Mac(nn.Module):
    """Pictures as grids and questions as words to scores of all answers."""

    def __init__(
        self,
        *,
        vocab_size: int,
        num_answers: int,
        grid_dim: int = 1024,
        dim: int = 512,
        word_dim: int = 300,
        steps: int = 4,
        kernel: int = 3,
        read_alignment: str = "dot",
        control_alignment: str = "dot",
        self_attention: bool = False,
        memory_gate: bool = False,
        recurrent_control: bool = False,
        swapped_control: bool = False,
        grid_dropout: float = 0.18,
        word_dropout: float = 0.15,
        question_dropout: float = 0.08,
        memory_dropout: float = 0.15,
        read_dropout: float = 0.15,
        output_dropout: float = 0.15,
    ) -> None:
        """Args:
        kernel: Side of both convolutions over the grid. With 1, a cell tells of nothing but itself.
        self_attention: Steps look back at earlier ones.
        memory_gate: A step may leave the memory as it was.
        recurrent_control: Each control reads the one before, and the first is learned.
        swapped_control: The control unit transforms the other operand than the alignment's name says.
        """
        super().__init__()
        self.picture = PictureInput(grid_dim, dim, kernel, grid_dropout)
        self.question = QuestionInput(vocab_size, word_dim, dim, word_dropout, question_dropout)
        self.cell = MacCell(
            dim,
            steps,
            read_alignment,
            control_alignment,
            self_attention=self_attention,
            memory_gate=memory_gate,
            recurrent_control=recurrent_control,
            swapped_control=swapped_control,
            read_dropout=read_dropout,
            memory_dropout=memory_dropout,
        )
        self.asked = nn.Linear(dim, dim)
        self.output = nn.Sequential(
            nn.Dropout(output_dropout),
            nn.Linear(2 * dim, dim),
            nn.ELU(),
            nn.Dropout(output_dropout),
            nn.Linear(dim, num_answers),
        )
        self._initialise()

    def _initialise(self) -> None:
        """As TensorFlow would: Xavier weights, zero biases, and a forget bias of 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.uniform_(self.question.embed.weight, -EMBEDDING_RANGE, EMBEDDING_RANGE)
        with torch.no_grad():
            self.question.embed.weight[0] = 0.0
            for name, parameter in self.question.lstm.named_parameters():
                if name.startswith("weight"):
                    nn.init.xavier_uniform_(parameter)
                else:
                    nn.init.zeros_(parameter)
                if name.startswith("bias_ih"):
                    _, forget_gate, _, _ = parameter.chunk(4)
                    forget_gate.fill_(FORGET_BIAS)

    def forward(
        self,
        grid: Float[Tensor, "b f y x"],
        tokens: Int[Tensor, "c t"],
        token_mask: Bool[Tensor, "c t"],
        owner: Int[Tensor, " c"],
    ) -> Float[Tensor, "c v"]:
        """Scores of all answers to each question; `owner` says which picture it is about."""
        knowledge = self.picture(grid)
        words, question = self.question(tokens, token_mask)
        memory = self.cell(question, words, token_mask, knowledge, owner)
        return self.output(torch.cat([memory, self.asked(question)], -1))

    def describe(self) -> Description:
        """Name, equivalence class and size of the alignments: element-wise, so all functions differ.

        A control unit with another function than the dot product makes another model of the same read unit.
        """
        setting, control = Setting(elementwise=True), self.cell.control
        read, own = self.cell.read.alignment.describe(setting), control.alignment.describe(setting)
        if own.name == "dot":
            return read
        swapped = ", swapped" if control.swapped else ""
        size = read.parameters + own.parameters
        return Description(read.name, f"{read.equivalence} (control: {own.equivalence}{swapped})", size)
