"""Does MAC compute what the original code and its options say, step by step?"""

import pytest
import torch

from lit_attn.errors import UserError
from lit_attn.models.mac import Mac, MacCell, PictureInput, QuestionInput
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.tape import AttentionTape

FILE = "alignment/mac_original.npz"
NAMES = {
    "control_input.": "question.",
    "control_input_step.": "control.step_inputs.",
    "control_input_shared.": "control.step_inputs.0.",
    "control_merge_1.": "control.merge.0.",
    "control_merge_2.": "control.merge.2.",
    "control_logits.": "control.logits.",
    "control_alignment.": "control.alignment.proj.",
    "read_kb.": "read.knowledge.",
    "read_memory.": "read.memory.",
    "read_merge_1.": "read.merge.",
    "read_merge_2.": "read.mix.",
    "read_logits.": "read.logits.",
    "read_alignment.": "read.alignment.proj.",
    "write_gate.": "write.gate.",
    "write_self_logits.": "write.logits.",
    "write_self_control.": "write.query.",
    "write.": "write.write.",
    "initial_memory": "first_memory",
    "initial_control": "first_control",
}
PORT_NAMES = {
    "control.control_input.0.": "question.",
    "control.control_input_u.": "control.step_inputs.",
    "control.attn.": "control.logits.",
    "read.kproj.": "read.knowledge.",
    "read.mproj.": "read.memory.",
    "read.concat.": "read.merge.",
    "read.concat_2.": "read.mix.",
    "read.attn.": "read.logits.",
    "write.linear.": "write.write.",
    "initial_memory": "first_memory",
}
OPTIONS = {
    "basic": {},
    "gate": {"memory_gate": True},
    "self_attention": {"self_attention": True},
    "recurrent_control": {"recurrent_control": True},
}
STUDY = {
    "dot": ("dot", False),
    "scaled": ("scaled_dot", True),
    "general_kwq": ("general_query", True),
    "general_qwk": ("general_key", True),
    "biased_general_kwq": ("biased_query", True),
    "biased_general_qwk": ("biased_key", True),
    "act_general_relu_qwk": ("activated", True),
    "read_only_scaled": ("scaled_dot", False),
    "read_only_general_kwq": ("general_query", False),
    "read_only_general_qwk": ("general_key", False),
    "read_only_biased_general_kwq": ("biased_query", False),
    "read_only_biased_general_qwk": ("biased_key", False),
    "read_only_act_general_relu_qwk": ("activated", False),
}
"""Published name to our alignment and whether the control unit changes with it."""


def cell(dim=11, steps=4, read="dot", control="dot", **options) -> MacCell:
    settings = {
        "self_attention": False,
        "memory_gate": False,
        "recurrent_control": False,
        "swapped_control": False,
        "read_dropout": 0.0,
        "memory_dropout": 0.0,
    } | options
    return MacCell(dim, steps, read, control, **settings).double().eval()


def renamed(arrays, prefix: str, names: dict[str, str], wanted) -> dict[str, torch.Tensor]:
    """The golden weights under our names, those that the network has."""
    found = {}
    for name, value in arrays.items():
        if name.startswith(prefix):
            short = name.removeprefix(prefix)
            old = max((old for old in names if short.startswith(old)), key=len)
            found[names[old] + short.removeprefix(old)] = value.double()
    return {name: value.reshape(wanted[name].shape) for name, value in found.items() if name in wanted}


def run(net: MacCell, question, words, mask, knowledge):
    """Last memory, the tape, and the memory after every step."""
    memories = []
    hook = net.write.register_forward_hook(lambda module, inputs, output: memories.append(output))
    with AttentionTape(net) as tape:
        last = net(question, words, mask, knowledge, torch.arange(len(question)))
    hook.remove()
    return last, tape, torch.stack(memories, 1)


def check(tape, memories, arrays, prefix: str) -> None:
    def of(site: str, what: str) -> torch.Tensor:
        return torch.stack([getattr(record, what)[:, 0, 0] for record in tape[site]], 1)

    for value, name in (
        (memories, "memories"),
        (of("control", "context"), "controls"),
        (of("read", "context"), "infos"),
        (of("control", "weights"), "word_attention"),
        (of("read", "weights"), "kb_attention"),
    ):
        torch.testing.assert_close(value, arrays[f"{prefix}{name}"], rtol=0, atol=1e-9)


def inputs(arrays) -> tuple[torch.Tensor, ...]:
    words = arrays["words"].double()
    mask = torch.arange(words.shape[1]) < arrays["lengths"][:, None]
    return arrays["question"].double(), words, mask, arrays["knowledge"].double()


@pytest.mark.parametrize("variant", OPTIONS)
def test_equals_the_original_cell(golden, variant):
    arrays = golden(FILE)
    net = cell(**OPTIONS[variant])
    net.load_state_dict(renamed(arrays, f"{variant}.weights.", NAMES, net.state_dict()), strict=True)
    last, tape, memories = run(net, *inputs(arrays))
    check(tape, memories, arrays, f"{variant}.out.")
    assert torch.equal(last, memories[:, -1])
    assert [record.call for record in tape["read"]] == [0, 1, 2, 3]
    if variant == "self_attention":
        for step, record in enumerate(tape["self"]):
            wanted = arrays[f"self_attention.out.self_attention_step{step}"]
            torch.testing.assert_close(record.weights[:, 0, 0], wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", STUDY)
def test_equals_the_study_with_any_alignment(golden, variant):
    arrays = golden("alignment/study_mac.npz")
    name, everywhere = STUDY[variant]
    net = cell(read=name, control=name if everywhere else "dot", swapped_control=everywhere)
    net.load_state_dict(renamed(arrays, "weights.", NAMES, net.state_dict()), strict=True)
    _, tape, memories = run(net, *inputs(arrays))
    check(tape, memories, arrays, f"{variant}.out.")


def test_equals_a_port_without_and_with_the_mask(golden):
    arrays = golden("alignment/mac_cell.npz")
    net = cell()
    net.load_state_dict(renamed(arrays, "weights.", PORT_NAMES, net.state_dict()), strict=True)
    question, words, mask, knowledge = inputs(arrays)
    last, tape, memories = run(net, question, words, torch.ones_like(mask), knowledge)
    check(tape, memories, arrays, "out.")
    check(*run(net, question, words, mask, knowledge)[1:], arrays, "derived_masked.")
    whole = Mac(vocab_size=5, num_answers=28, grid_dim=3, dim=22, word_dim=3).double().eval()
    whole.asked = torch.nn.Linear(11, 11).double()
    whole.output[1], whole.output[4] = torch.nn.Linear(22, 11).double(), torch.nn.Linear(11, 28).double()
    for layer, name in (
        (whole.asked, "question_proj"),
        (whole.output[1], "classifier.1"),
        (whole.output[4], "classifier.4"),
    ):
        layer.load_state_dict(
            {part: arrays[f"output_unit.weights.{name}.{part}"].double() for part in ("weight", "bias")}
        )
    logits = whole.output(torch.cat([last, whole.asked(question)], -1))
    torch.testing.assert_close(logits, arrays["output_unit.logits"], rtol=0, atol=1e-9)


def test_inputs_equal_those_of_a_port(golden):
    arrays = golden("alignment/mac_input.npz")
    weights = {name.removeprefix("weights."): value for name, value in arrays.items() if name.startswith("weights.")}
    picture = PictureInput(5, 11, 3, 0.0).double().eval()
    for convolution, name in zip(picture.convolutions, ("stem.1", "stem.4"), strict=True):
        convolution.load_state_dict({part: weights[f"{name}.{part}"].double() for part in ("weight", "bias")})
    torch.testing.assert_close(picture(arrays["image"].double()), arrays["knowledge"], rtol=0, atol=1e-9)
    question = QuestionInput(17, 7, 12, 0.0, 0.0).double().eval()
    question.embed.load_state_dict({"weight": weights["encoder_embed.weight"].double()})
    question.lstm.load_state_dict(
        {name.removeprefix("encoder."): v.double() for name, v in weights.items() if name.startswith("encoder.")}
    )
    tokens = arrays["token_ids"]
    words, whole = question(tokens, torch.arange(tokens.shape[1]) < arrays["lengths"][:, None])
    torch.testing.assert_close(whole, arrays["question"], rtol=0, atol=1e-9)
    torch.testing.assert_close(words, arrays["words"], rtol=0, atol=1e-9)


def mac(alignment="dot", **options) -> Mac:
    torch.manual_seed(7)
    settings = {"dim": 14, "word_dim": 5, "steps": 3, "read_alignment": alignment} | options
    return Mac(vocab_size=19, num_answers=11, grid_dim=5, **settings).double().eval()


def asked(count=7, pictures=3, longest=6):
    torch.manual_seed(3)
    lengths = torch.randint(1, longest + 1, (count,))
    lengths[0] = longest
    mask = torch.arange(longest) < lengths[:, None]
    tokens = torch.where(mask, torch.randint(4, 19, (count, longest)), 0)
    grid = torch.randn(pictures, 5, 3, 4, dtype=torch.float64)
    return grid, tokens, mask, torch.arange(count) % pictures


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_weights_times_values_are_what_goes_on(name):
    net = mac(name, control_alignment=name, self_attention=True, memory_gate=True, recurrent_control=True)
    with AttentionTape(net) as tape:
        net(*asked())
    assert {(record.site.name, record.call) for record in tape} == {
        (site, call) for site in ("control", "read", "self") for call in range(3)
    }
    for record in tape:
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)
        torch.testing.assert_close(record.weights.sum(-1), torch.ones_like(record.weights[..., 0]))
        assert record.weights.masked_select(~record.key_mask.unsqueeze(1)).abs().sum() == 0


def test_padding_changes_nothing_and_questions_do_not_meet():
    net = mac()
    grid, tokens, mask, owner = asked()
    scores = net(grid, tokens, mask, owner)
    padded = torch.nn.functional.pad(tokens, (0, 2), value=9)
    torch.testing.assert_close(net(grid, padded, torch.nn.functional.pad(mask, (0, 2)), owner), scores)
    for i in range(len(tokens)):
        length = int(mask[i].sum())
        alone = net(grid[owner[i]][None], tokens[i : i + 1, :length], mask[i : i + 1, :length], torch.tensor([0]))
        torch.testing.assert_close(alone[0], scores[i], rtol=0, atol=1e-12)


def test_dropout_of_the_memory_is_one_mask_for_all_steps():
    net = mac(memory_dropout=0.5, read_dropout=0.0, steps=5).train()
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    heard = []
    net.cell.read.register_forward_pre_hook(lambda module, given: heard.append(given[1]))
    net(*asked())
    dropped = [memory == 0 for memory in heard]
    assert 0 < dropped[0].double().mean() < 1
    assert all(torch.equal(dropped[0], later) for later in dropped[1:])


def test_dropped_cells_are_drawn_anew_in_every_step_and_values_stay_whole():
    net = mac(read_dropout=0.5).train()
    looked = []
    net.cell.read.register_forward_hook(lambda module, given, output: looked.append(given[3][0]))
    with AttentionTape(net, "read") as tape:
        net(*asked())
    assert not torch.equal(looked[0], looked[1])
    assert torch.equal(tape["read"][0].value, tape["read"][1].value)


def test_gradients_reach_every_parameter():
    net = mac(
        "biased_key", control_alignment="biased_query", self_attention=True, memory_gate=True, recurrent_control=True
    )
    net(*asked()).square().sum().backward()
    without = {name for name, parameter in net.named_parameters() if parameter.grad is None}
    assert not without
    # A softmax cancels what it adds to every key alike.
    zero = {n for n, p in net.named_parameters() if p.grad is not None and not p.grad.abs().gt(1e-12).any()}
    assert zero == {"cell.control.logits.bias", "cell.read.logits.bias", "cell.write.logits.bias"}


def test_gradients_of_recorded_weights_are_not_zero():
    net = mac()
    with AttentionTape(net, gradients=True) as tape:
        scores = net(*asked())
    for gradient in tape.gradients_of(scores[:, 2].sum()):
        assert gradient.abs().max() > 0


def test_starts_like_tensorflow():
    net = mac()
    assert net.question.embed.weight[0].abs().sum() == 0
    assert net.question.embed.weight[1:].abs().max() <= 1
    gates = (net.question.lstm.bias_ih_l0 + net.question.lstm.bias_hh_l0).chunk(4)
    assert [float(gate.min()) for gate in gates] == [0, 1, 0, 0]
    assert [float(gate.max()) for gate in gates] == [0, 1, 0, 0]


def test_all_functions_are_models_of_their_own():
    classes = [mac(name).describe().equivalence for name in ALIGNMENTS]
    assert len(set(classes)) == len(ALIGNMENTS)


@pytest.mark.parametrize(("setting", "message"), [({"steps": 0}, "steps=0"), ({"dim": 13}, "even, got 13")])
def test_impossible_settings_are_named(setting, message):
    with pytest.raises(UserError, match=message):
        mac(**setting)


def test_with_a_kernel_of_one_a_cell_tells_of_itself_alone():
    torch.manual_seed(0)
    alone, around = PictureInput(5, 7, 1, 0.0), PictureInput(5, 7, 3, 0.0)
    grid = torch.randn(1, 5, 3, 4)
    other = grid.clone()
    other[:, :, 1, 2] += 1
    for net, changed in ((alone, 1), (around, 12)):
        different = (net(grid) != net(other)).any(-1)[0]
        assert different[1 * 4 + 2]
        assert int(different.sum()) == changed
    with pytest.raises(UserError, match="must be odd, got kernel=2"):
        PictureInput(5, 7, 2, 0.0)
