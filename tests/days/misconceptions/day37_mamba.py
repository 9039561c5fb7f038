"""Day 37: what goes wrong with a selective state: discretisation, order, the gate, causality, what is kept."""

from course.judging.misconceptions import Misconception

SCAN, LAYER = "selective_scan", "Mamba"

WIDE = "wide = torch.promote_types(u.dtype, torch.float32)"
EMPTY = "h = x.new_zeros(x.size(0), *a.shape)"
OUTPUTS = "outputs = [x[:, :0]]"
WRITTEN = "written = step * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)"
DECAY = "(step * a).exp() * h + written"
UPDATE = f"h = {DECAY}"
READ = "y = h @ c[:, t].unsqueeze(-1)"
PASSES = "outputs.append(y.transpose(1, 2) + d * x[:, t : t + 1])"
JOIN = "return torch.cat(outputs, dim=1).to(u.dtype)"
STEP = "step = delta[:, t].unsqueeze(-1)"

IN = "self.in_proj = nn.Linear(config.d_model, 2 * d_inner, bias=False)"
OUT = "self.out_proj = nn.Linear(d_inner, config.d_model, bias=False)"
CONV = "self.conv1d = nn.Conv1d(d_inner, d_inner, config.d_conv, groups=d_inner)"
X_PROJ = "self.x_proj = nn.Linear(d_inner, rank + 2 * d_state, bias=False)"
DT_PROJ = "self.dt_proj = nn.Linear(rank, d_inner)"
RATES = "rates = torch.arange(1.0, d_state + 1)"
A_LOG = "self.a_log = nn.Parameter(rates.log().repeat(d_inner, 1))"
SKIP = "self.d = nn.Parameter(torch.ones(d_inner))"
DT_WEIGHT = "nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)"
STEPS = "steps = torch.empty(d_inner).uniform_(math.log(1e-3), math.log(0.1)).exp()"
DT_BIAS = "self.dt_proj.bias = nn.Parameter(steps.expm1().log())"

NEW = "state = MambaState(self.config, x.size(0))"
HALVES = "x, z = self.in_proj(x).chunk(2, dim=-1)"
SEEN = "seen = torch.cat([state.window.to(x), x], dim=1)"
WINDOW = "state.window = seen[:, x.size(1) :].detach().clone()"
SOME = "if x.size(1) > 0:"
CONVOLVED = "x = self.conv1d(seen.transpose(1, 2)).transpose(1, 2)"
SILU = "        x = F.silu(x)"
SPLIT = "r, b, c = self.x_proj(x).split([config.dt_rank, config.d_state, config.d_state], dim=-1)"
DELTA = "delta = F.softplus(self.dt_proj(r))"
BEFORE = "h = state.h.to(x.device)"
CALL = "y, h = parallel_scan(x, delta, -self.a_log.exp(), b, c, self.d, h)"
AFTER = "state.h = h.detach().clone()"
GATED = "return self.out_proj(y * F.silu(z))"

DIVIDING = """
def selective_scan(u, delta, a, b, c, d):
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, a, b, c, d = (one.to(wide) for one in (u, delta, a, b, c, d))
    decay = (delta.cumsum(dim=1).unsqueeze(-1) * a).exp()
    written = (delta * x).unsqueeze(-1) * b.unsqueeze(2)
    h = decay * (written / decay).cumsum(dim=1)
    return ((h * c.unsqueeze(2)).sum(dim=-1) + d * x).to(u.dtype)
"""

SQUEEZED = """
def selective_scan(u, delta, a, b, c, d):
    wide = torch.promote_types(u.dtype, torch.float32)
    x, delta, a, b, c, d = (one.to(wide) for one in (u, delta, a, b, c, d))
    h = x.new_zeros(x.size(0), *a.shape)
    y = torch.zeros_like(x)
    for t in range(x.size(1)):
        step = delta[:, t].unsqueeze(-1)
        h = (step * a).exp() * h + step * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)
        y[:, t] = (h @ c[:, t].unsqueeze(-1)).squeeze() + d * x[:, t]
    return y.to(u.dtype)
"""

MISCONCEPTIONS = [
    # --- the scan: from continuous to discrete
    Misconception(
        "zero_order_hold_for_b",
        SCAN,
        "You discretise B as the paper prints it (eq. 4). Its published code does not: it takes Δ B, which is the same to first order. Published weights were trained with that.",
        {
            WRITTEN: "written = ((step * a).exp() - 1) / a * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)"
        },
    ),
    Misconception(
        "written_without_the_step",
        SCAN,
        "You write B u, without the step. Δ decides on both: how much of the past goes, and how much of the present comes in. A token with a step of 0 is to leave no trace.",
        {WRITTEN: WRITTEN.replace("step * ", "")},
    ),
    Misconception(
        "written_by_what_is_forgotten",
        SCAN,
        "You weigh what comes in by one minus the decay, as a gated network does. That is this scan for A = −1 and B = 1 alone; in general it is Δ B u.",
        {
            WRITTEN: "written = (1 - (step * a).exp()) * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(-1)"
        },
    ),
    Misconception(
        "decay_without_exponential",
        SCAN,
        "You multiply the state by Δ A itself. That is a negative number, and the state would change its sign with every token. The decay is its exponential, between 0 and 1.",
        {UPDATE: "h = step * a * h + written"},
    ),
    Misconception(
        "decay_by_euler",
        SCAN,
        "You multiply the state by 1 + Δ A. That is exp(Δ A) to first order, and it is below −1 as soon as Δ A is below −2: the state explodes. Take the exponential.",
        {UPDATE: "h = (1 + step * a) * h + written"},
    ),
    Misconception(
        "decay_without_the_step",
        SCAN,
        "Your state decays by exp(A) at every token alike. The step belongs in the exponent: it is what lets a token keep the past, or forget it.",
        {UPDATE: "h = a.exp() * h + written"},
    ),
    Misconception(
        "a_taken_as_positive",
        SCAN,
        "You put a minus before A. `a` is given as it is used, negative already: with another minus the state grows instead of decaying.",
        {UPDATE: "h = (-step * a).exp() * h + written"},
    ),
    Misconception(
        "a_taken_as_a_logarithm",
        SCAN,
        "You compute −exp(a) from `a`. That is what the layer does with its `a_log`, before it calls the scan: `a` is given as it is used.",
        {UPDATE: "h = (-step * a.exp()).exp() * h + written"},
    ),
    Misconception(
        "softplus_once_more",
        SCAN,
        "You take the softplus of the steps. `delta` is given as it is used, after the softplus: with another a step of 0 becomes one of 0.69.",
        {STEP: "step = F.softplus(delta[:, t]).unsqueeze(-1)"},
    ),
    Misconception(
        "one_step_for_all_channels",
        SCAN,
        "You take the mean of the channels' steps. Each channel has a step of its own: one may forget at the very token that another keeps its past through.",
        {
            STEP: "step = delta[:, t].mean(dim=-1, keepdim=True).unsqueeze(-1).expand(-1, a.size(0), -1)"
        },
    ),
    # --- the scan: order
    Misconception(
        "read_before_writing",
        SCAN,
        "You read the state before the token is in it. y_t is read from h_t, which the token t has been written into.",
        {UPDATE: f"{READ}\n        {UPDATE}", f"{READ}  #": "#"},
    ),
    Misconception(
        "written_before_decaying",
        SCAN,
        "You write the token first, and then let everything decay, the token too. Only what was there before decays by this token's step.",
        {UPDATE: "h = (step * a).exp() * (h + written)"},
    ),
    Misconception(
        "from_right_to_left",
        SCAN,
        "You go through the text from its end. A token would know what comes after it, and nothing of what came before.",
        {
            "for t in range(x.size(1)):": "for t in reversed(range(x.size(1))):",
            OUTPUTS: "outputs = []",
            JOIN: "return torch.cat([x[:, :0], *reversed(outputs)], dim=1).to(u.dtype)",
        },
    ),
    Misconception(
        "decay_of_the_token_before",
        SCAN,
        "You let the state decay by the step of the token before. A token decides itself what it forgets: h_t = exp(Δ_t A) h_{t−1} + ….",
        {UPDATE: "h = (delta[:, max(t - 1, 0)].unsqueeze(-1) * a).exp() * h + written"},
    ),
    Misconception(
        "starts_at_one",
        SCAN,
        "Your state starts with ones. Before the first token there is nothing: it starts at 0.",
        {EMPTY: "h = x.new_ones(x.size(0), *a.shape)"},
    ),
    Misconception(
        "state_forgotten",
        SCAN,
        "Your state is new at each token: what is written is read at once, and then lost. The state is the only way from one token to the next.",
        {UPDATE: "h = written"},
    ),
    # --- the scan: what is read, and what passes by
    Misconception(
        "b_and_c_exchanged",
        SCAN,
        "You write by C and read by B. B says what of a token goes into the state, C what of the state comes out.",
        {WRITTEN: WRITTEN.replace("b[", "c["), READ: READ.replace("c[", "b[")},
    ),
    Misconception(
        "read_by_b",
        SCAN,
        "You read the state by B, as it was written. What is read has numbers of its own: C.",
        {READ: READ.replace("c[", "b[")},
    ),
    Misconception(
        "read_without_c",
        SCAN,
        "You add up the state as it is. C says how much each of its N numbers counts in the output, at each token anew.",
        {READ: "y = h.sum(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "mean_of_the_state",
        SCAN,
        "You take the mean over the N numbers of state. C_t h_t is their sum, weighted by C.",
        {READ: f"{READ} / a.size(1)"},
    ),
    Misconception(
        "nothing_passes_by",
        SCAN,
        "You leave out D u. Each channel also hands its input on directly, by a weight of its own.",
        {PASSES: "outputs.append(y.transpose(1, 2))"},
    ),
    Misconception(
        "d_added_alone",
        SCAN,
        "You add D, as though it were a bias. It is the weight of the input, which passes the state by: D u.",
        {PASSES: "outputs.append(y.transpose(1, 2) + d)"},
    ),
    Misconception(
        "passed_by_the_step",
        SCAN,
        "You multiply the skip by the step as well. D u passes everything by, the step too.",
        {PASSES: PASSES.replace("d * x[", "d * delta[:, t : t + 1] * x[")},
    ),
    # --- the scan: numbers
    Misconception(
        "divided_by_vanishing_products",
        SCAN,
        "You compute all states at once, from a sum of what was written divided by the product of all decays so far. That is right on paper. The product vanishes, sooner or later, "
        "and then you divide by 0. A product may be multiplied by, and never divided by.",
        source=DIVIDING,
    ),
    Misconception(
        "axes_squeezed_away",
        SCAN,
        "You squeeze every axis of size 1, and not only the last. With a single row, or a single channel, there is one axis too few, and what is left is broadcast.",
        source=SQUEEZED,
    ),
    Misconception(
        "halves_not_widened",
        SCAN,
        "You compute in half precision. The state is a sum over the whole past, and three digits soon take in nothing any more: widen to float32, and go back at the end.",
        {WIDE: "wide = u.dtype"},
    ),
    Misconception(
        "state_in_halves",
        SCAN,
        "You compute in float32, but keep the state in half precision: it is rounded at every token, and small things never get in.",
        {UPDATE: f"h = ({DECAY}).to(u.dtype).to(wide)"},
    ),
    Misconception(
        "result_stays_wide",
        SCAN,
        "Your result is float32 where the input is of half precision. Compute in float32, and give back the input's dtype.",
        {JOIN: JOIN.removesuffix(".to(u.dtype)")},
    ),
    Misconception(
        "always_in_float32",
        SCAN,
        "You compute in float32 whatever the input is. Halves are widened to it, but float64 loses half of its digits: take the wider of the two.",
        {WIDE: "wide = torch.float32"},
    ),
    Misconception(
        "nothing_to_join",
        SCAN,
        "Without any tokens you join an empty list, and torch does not know of what shape that is. A text may be empty: the result is `(B, 0, D)`.",
        {OUTPUTS: "outputs = []"},
    ),
    Misconception(
        "history_cut_off",
        SCAN,
        "Your outputs are right, but the state is cut from its history at each token: gradients reach the present token alone, and nothing would learn to remember.",
        {UPDATE: "h = (step * a).exp() * h.detach() + written"},
    ),
    Misconception(
        "decay_without_a_gradient",
        SCAN,
        "Your outputs are right, but no gradient goes through the decay: A would never be learnt, and Δ not when to forget.",
        {UPDATE: "h = (step * a).exp().detach() * h + written"},
    ),
    # --- the layer: what it is made of
    Misconception(
        "in_proj_with_a_bias",
        LAYER,
        "Your `in_proj` has a bias, as `nn.Linear` has one unless it is told otherwise. Only the convolution and `dt_proj` have biases here.",
        {IN: IN.replace(", bias=False", "")},
    ),
    Misconception(
        "out_proj_with_a_bias",
        LAYER,
        "Your `out_proj` has a bias. Only the convolution and `dt_proj` have biases here.",
        {OUT: OUT.replace(", bias=False", "")},
    ),
    Misconception(
        "x_proj_with_a_bias",
        LAYER,
        "Your `x_proj` has a bias. The one bias on the way to Δ is that of `dt_proj`; B and C have none.",
        {X_PROJ: X_PROJ.replace(", bias=False", "")},
    ),
    Misconception(
        "convolution_without_a_bias",
        LAYER,
        "Your convolution has no bias. Of all the parts it is one of the two that have one, beside `dt_proj`.",
        {CONV: CONV.replace("groups=", "bias=False, groups=")},
    ),
    Misconception(
        "convolution_mixes_channels",
        LAYER,
        "Your convolution mixes the channels: its weight is D times as large. Each channel is convolved by itself (`groups`); mixing is what the projections are for.",
        {CONV: CONV.replace(", groups=d_inner", "")},
    ),
    Misconception(
        "steps_of_full_width",
        LAYER,
        "You compute Δ by a matrix as wide as the layer. It goes through R numbers: `x_proj` makes them beside B and C, and `dt_proj` makes the D steps of them.",
        {
            X_PROJ: X_PROJ.replace("rank +", "d_inner +"),
            DT_PROJ: "self.dt_proj = nn.Linear(d_inner, d_inner)",
            SPLIT: SPLIT.replace("config.dt_rank", "config.d_inner"),
        },
    ),
    Misconception(
        "published_names",
        LAYER,
        "You call two of the parameters `A_log` and `D`, as the published code does. Here they are `a_log` and `d`: weights find their places by name.",
        {
            A_LOG: A_LOG.replace("a_log", "A_log"),
            SKIP: SKIP.replace("self.d", "self.D"),
            CALL: CALL.replace("a_log", "A_log").replace("self.d", "self.D"),
        },
    ),
    Misconception(
        "a_not_learnt",
        LAYER,
        "Your `a_log` is a buffer. It starts from a formula, but it is learnt like everything else: a parameter.",
        {A_LOG: 'self.register_buffer("a_log", rates.log().repeat(d_inner, 1))'},
    ),
    Misconception(
        "skip_not_learnt",
        LAYER,
        "Your skip `d` is a buffer. It starts at 1, but it is learnt like everything else: a parameter.",
        {SKIP: 'self.register_buffer("d", torch.ones(d_inner))'},
    ),
    Misconception(
        "state_in_the_state_dict",
        LAYER,
        "Your layer keeps its state as a buffer, and saves it with its weights. What was read belongs to a text, and into the caller's `state`.",
        {
            SKIP: f'{SKIP}\n        self.register_buffer("h", None)',
            AFTER: f"{AFTER}\n        self.h = state.h",
        },
    ),
    # --- the layer: how it starts
    Misconception(
        "logarithm_forgotten",
        LAYER,
        "Your `a_log` starts at 1, 2, …, N. It holds the logarithms of these: with −exp(a_log) A would start at −e, −e², …, and forget everything at once.",
        {A_LOG: A_LOG.replace("rates.log()", "rates")},
    ),
    Misconception(
        "counted_from_zero",
        LAYER,
        "Your A starts at 0, −1, …: you count from 0. The logarithm of 0 is −∞, and the first number of state would never decay. A = −1, −2, …, −N.",
        {RATES: "rates = torch.arange(0.0, d_state)"},
    ),
    Misconception(
        "a_starts_at_random",
        LAYER,
        "Your A starts at random. The N numbers of a channel are to forget at different speeds from the start: A = −1, −2, …, −N.",
        {RATES: "rates = torch.rand(d_state) + 0.5"},
    ),
    Misconception(
        "skip_starts_at_zero",
        LAYER,
        "Your skip starts at 0. It starts at 1: at first a channel hands on its input as it is.",
        {SKIP: SKIP.replace("ones", "zeros")},
    ),
    Misconception(
        "bias_as_torch_starts_it",
        LAYER,
        "The bias of your `dt_proj` starts as torch starts it, around 0. Then all steps are near 0.69, and a state forgets within some tokens. They start between 0.001 and 0.1.",
        {DT_BIAS: "pass"},
    ),
    Misconception(
        "bias_is_the_step_itself",
        LAYER,
        "You set the bias to the steps themselves. It goes through the softplus first: what you need is the number whose softplus is the step, ln(eˣ − 1).",
        {DT_BIAS: DT_BIAS.replace(".expm1().log()", "")},
    ),
    Misconception(
        "steps_uniform",
        LAYER,
        "Your steps start uniform between 0.001 and 0.1, so that nine in ten are above 0.01. It is their logarithm that is uniform: some channels are to remember long.",
        {STEPS: "steps = torch.empty(d_inner).uniform_(1e-3, 0.1)"},
    ),
    Misconception(
        "one_step_at_the_start",
        LAYER,
        "All your channels start with the same step. Each has one of its own, drawn between 0.001 and 0.1: some forget fast, some slowly.",
        {STEPS: "steps = torch.full((d_inner,), 0.01)"},
    ),
    Misconception(
        "weight_of_dt_too_wide",
        LAYER,
        "The weight of your `dt_proj` starts uniform between −1 and 1. It is ±R^−½, so that Δ stays where its bias has put it.",
        {DT_WEIGHT: "nn.init.uniform_(self.dt_proj.weight, -1.0, 1.0)"},
    ),
    Misconception(
        "weight_of_dt_too_narrow",
        LAYER,
        "The weight of your `dt_proj` starts between ±1/R. It is ±R^−½, one over the root.",
        {DT_WEIGHT: "nn.init.uniform_(self.dt_proj.weight, -1 / rank, 1 / rank)"},
    ),
    # --- the layer: the convolution
    Misconception(
        "convolution_sees_what_comes",
        LAYER,
        "Your convolution looks ahead: you fill up with zeros behind the text instead of before it. What is trained so cannot produce a text, since it needs the next tokens.",
        {SEEN: "seen = torch.cat([x, state.window.to(x)], dim=1)"},
    ),
    Misconception(
        "convolution_centred",
        LAYER,
        "Your convolution looks to both sides, with half of the zeros before the text and half behind it. It has to be causal: all of them before it.",
        {
            SEEN: "half = state.window.size(1) // 2\n"
            "        seen = torch.cat([state.window[:, half:].to(x), x, state.window[:, :half].to(x)], dim=1)",
            WINDOW: "state.window = torch.cat([state.window.to(x), x], dim=1)[:, x.size(1) :].detach()",
        },
    ),
    Misconception(
        "convolution_flipped",
        LAYER,
        "You apply the weights of the convolution in reverse. torch does not flip: the last weight belongs to the present token.",
        {
            CONVOLVED: "x = F.conv1d(seen.transpose(1, 2), self.conv1d.weight.flip(-1), self.conv1d.bias, groups=seen.size(2)).transpose(1, 2)"
        },
    ),
    Misconception(
        "no_silu_after_the_convolution",
        LAYER,
        "There is no SiLU between convolution and scan in your layer. Without it the two are one linear thing; B, C and Δ are made from what comes after it, too.",
        {SILU: ""},
    ),
    Misconception(
        "silu_before_the_convolution",
        LAYER,
        "You apply SiLU before the convolution. It comes after it.",
        {HALVES: f"{HALVES}\n        x = F.silu(x)", f"{SILU}\n        # 3": "        # 3"},
    ),
    Misconception(
        "gate_convolved",
        LAYER,
        "You let the gate z through the convolution as well. Only x is convolved; z waits for the scan to be done.",
        {
            GATED: "z = F.pad(z.transpose(1, 2), (self.config.d_conv - 1, 0))\n        z = self.conv1d(z).transpose(1, 2)\n        return self.out_proj(y * F.silu(z))"
        },
    ),
    # --- the layer: what makes the scan selective
    Misconception(
        "gate_first",
        LAYER,
        "You take the first half of `in_proj` for the gate. The first half is x, which is scanned; the second is the gate z.",
        {HALVES: "z, x = self.in_proj(x).chunk(2, dim=-1)"},
    ),
    Misconception(
        "c_before_b",
        LAYER,
        "You take C before B from what `x_proj` gives. The order is r, then B, then C.",
        {SPLIT: SPLIT.replace("r, b, c =", "r, c, b =")},
    ),
    Misconception(
        "steps_last",
        LAYER,
        "You take r from the end of what `x_proj` gives. It comes first: r, then B, then C.",
        {
            SPLIT: "b, c, r = self.x_proj(x).split([config.d_state, config.d_state, config.dt_rank], dim=-1)"
        },
    ),
    Misconception(
        "selected_before_the_convolution",
        LAYER,
        "You make Δ, B and C from x as it was before the convolution. They are made from what is scanned: after convolution and SiLU.",
        {SPLIT: SPLIT.replace("(x)", "(seen[:, config.d_conv - 1 :])")},
    ),
    Misconception(
        "steps_by_exponential",
        LAYER,
        "You make the steps positive by an exponential. It is the softplus: like the exponential where it is small, and like the number itself where it is large.",
        {DELTA: "delta = self.dt_proj(r).exp()"},
    ),
    Misconception(
        "steps_by_relu",
        LAYER,
        "You make the steps positive by cutting off below 0. It is the softplus: a channel whose step is cut off to 0 would never learn any more.",
        {DELTA: "delta = self.dt_proj(r).relu()"},
    ),
    Misconception(
        "steps_by_sigmoid",
        LAYER,
        "You make the steps by a sigmoid, so that none is above 1. It is the softplus: a large step is how a channel forgets everything.",
        {DELTA: "delta = self.dt_proj(r).sigmoid()"},
    ),
    Misconception(
        "steps_not_made_positive",
        LAYER,
        "Your steps may be negative. With a negative step the state grows, and what the token brings enters with its sign turned: the softplus is missing.",
        {DELTA: "delta = self.dt_proj(r)"},
    ),
    Misconception(
        "bias_after_the_softplus",
        LAYER,
        "You add the bias of `dt_proj` after the softplus. It comes before it: there it shifts where a step starts, and the step stays positive.",
        {DELTA: "delta = F.softplus(r @ self.dt_proj.weight.T) + self.dt_proj.bias"},
    ),
    Misconception(
        "steps_the_same_for_all_tokens",
        LAYER,
        "Your steps are the bias alone, the same at every token. Then nothing is selected: what makes a step is the token, through `x_proj` and `dt_proj`.",
        {DELTA: "delta = F.softplus(self.dt_proj(0 * r))"},
    ),
    Misconception(
        "a_positive",
        LAYER,
        "Your A is exp(a_log), without the minus. It has to be negative, or the state grows with every token until nothing is finite.",
        {CALL: CALL.replace("-self.a_log.exp()", "self.a_log.exp()")},
    ),
    Misconception(
        "a_log_taken_for_a",
        LAYER,
        "You hand −a_log to the scan as A. What is learnt is a logarithm: A = −exp(a_log), negative whatever a_log becomes.",
        {CALL: CALL.replace("-self.a_log.exp()", "-self.a_log")},
    ),
    Misconception(
        "skip_left_out",
        LAYER,
        "You have the skip `d`, but the scan is called with zeros for it. Each channel also hands its input on directly.",
        {CALL: CALL.replace("self.d,", "torch.zeros_like(self.d),")},
    ),
    # --- the layer: the gate
    Misconception(
        "gate_by_sigmoid",
        LAYER,
        "You gate by a sigmoid. The gate is SiLU, z times its sigmoid: it lets through more than there was, where z is large.",
        {GATED: GATED.replace("F.silu(z)", "z.sigmoid()")},
    ),
    Misconception(
        "gate_without_silu",
        LAYER,
        "You multiply by z as it is. The gate goes through SiLU first.",
        {GATED: GATED.replace("F.silu(z)", "z")},
    ),
    Misconception(
        "silu_on_the_wrong_side",
        LAYER,
        "You apply SiLU to what was scanned, and multiply by z as it is. It is the gate that goes through SiLU.",
        {GATED: "return self.out_proj(F.silu(y) * z)"},
    ),
    Misconception(
        "gate_left_out",
        LAYER,
        "You have no gate: half of what `in_proj` computes is never used. What comes out of the scan is multiplied by SiLU(z).",
        {GATED: "return self.out_proj(y)"},
    ),
    Misconception(
        "gated_before_the_scan",
        LAYER,
        "You gate what goes into the scan. The gate comes after it: what is remembered does not depend on it.",
        {CALL: CALL.replace("(x,", "(x * F.silu(z),"), GATED: "return self.out_proj(y)"},
    ),
    Misconception(
        "gate_added",
        LAYER,
        "You add the gate. It multiplies: that is what lets a token shut a channel off.",
        {GATED: GATED.replace("y * ", "y + ")},
    ),
    Misconception(
        "shortcut_inside",
        LAYER,
        "You add the input to the output. The shortcut is around the layer, in the block that holds it, together with the norm.",
        {
            NEW: f"{NEW}\n        shortcut = x",
            "if state is None:": "shortcut = x\n        if state is None:",
            GATED: "return shortcut + self.out_proj(y * F.silu(z))",
        },
    ),
    # --- the layer: a text in pieces
    Misconception(
        "window_after_the_convolution",
        LAYER,
        "What you keep for the convolution is what came out of it. The next tokens are convolved with what went *in*.",
        {
            WINDOW: "past = state.window.to(x)",
            SILU: f"{SILU}\n        state.window = torch.cat([past, x], dim=1)[:, x.size(1) :].detach().clone()",
        },
    ),
    Misconception(
        "window_of_this_chunk_alone",
        LAYER,
        "You keep the last inputs of this chunk alone. A chunk may be shorter than the window: then some of what was there before belongs in it still.",
        {WINDOW: "state.window = x[:, -(self.config.d_conv - 1) :].detach().clone()"},
    ),
    Misconception(
        "window_with_the_present",
        LAYER,
        "You keep d_conv inputs. d_conv − 1 are enough, since the convolution's last weight is for the token that comes.",
        {
            SEEN: f"{SEEN.replace('state.window', 'state.window[:, -(self.config.d_conv - 1) :]')}",
            WINDOW: "longer = torch.cat([state.window.new_zeros(len(x), 1, x.size(2)).to(x), seen], dim=1)\n"
            "        state.window = longer[:, x.size(1) :].detach().clone()",
        },
    ),
    Misconception(
        "window_newest_first",
        LAYER,
        "You keep the convolution's last inputs with the newest first. The oldest comes first, as in the text.",
        {
            SEEN: SEEN.replace("state.window", "state.window.flip(1)"),
            WINDOW: WINDOW.replace(".detach()", ".flip(1).detach()"),
        },
    ),
    Misconception(
        "window_not_kept",
        LAYER,
        "You do not keep the convolution's last inputs. For the tokens that follow it sees zeros where the text was.",
        {WINDOW: "pass"},
    ),
    Misconception(
        "window_not_read",
        LAYER,
        "You keep the convolution's last inputs, and then begin the next chunk with zeros all the same. What was kept comes before the chunk.",
        {
            SEEN: SEEN.replace("state.window", "torch.zeros_like(state.window)"),
            WINDOW: "state.window = torch.cat([state.window.to(x), x], dim=1)[:, x.size(1) :].detach()",
        },
    ),
    Misconception(
        "h_not_read",
        LAYER,
        "Each of your chunks starts its scan from 0. It goes on from `state.h`, or all that came before is forgotten.",
        {CALL: CALL.replace(", h)", ")")},
    ),
    Misconception(
        "h_not_kept",
        LAYER,
        "You do not keep what the scan remembers: the state's `h` stays 0, and each chunk is scanned as if nothing had come before it.",
        {AFTER: "pass"},
    ),
    Misconception(
        "state_for_single_tokens_only",
        LAYER,
        "You go on from the state only where a single token comes, and scan longer chunks from 0. Any chunk follows what was read before it.",
        {CALL: CALL.replace(", h)", ", h if x.size(1) == 1 else None)")},
    ),
    Misconception(
        "state_of_the_first_text",
        LAYER,
        "Your layer keeps a state of its own, and goes on with it when the next text comes without one. What was read belongs in the caller's state.",
        {
            SKIP: f"{SKIP}\n        self.kept = None",
            NEW: "state = self.kept if self.kept is not None and len(self.kept.h) == len(x) else MambaState(self.config, x.size(0))",
            GATED: f"self.kept = state\n        {GATED}",
        },
    ),
    Misconception(
        "history_kept",
        LAYER,
        "Your state holds the history of its numbers: gradients go back into earlier chunks, and with each step of decoding the graph grows. `detach` what you keep.",
        {WINDOW: WINDOW.replace(".detach()", ""), AFTER: AFTER.replace(".detach()", "")},
    ),
    Misconception(
        "history_of_h_kept",
        LAYER,
        "`state.window` is free of its history, and `state.h` is not: gradients go back into earlier chunks through the scan. `detach` both.",
        {AFTER: AFTER.replace(".detach()", "")},
    ),
    Misconception(
        "h_rounded",
        LAYER,
        "You keep h in half precision. It is a sum over the whole past: rounded to three digits at every token, it soon takes in nothing any more.",
        {AFTER: AFTER.replace(".clone()", ".to(x.dtype)")},
    ),
    Misconception(
        "window_stays_float32",
        LAYER,
        "A new state holds zeros in float32. You join them to a chunk of another dtype, and the convolution refuses the mixture: take the chunk's.",
        {SEEN: SEEN.replace(".to(x)", "")},
    ),
    Misconception(
        "convolution_of_nothing",
        LAYER,
        "You convolve an empty chunk. With the window alone there are fewer inputs than weights, and torch refuses: where no token comes there is nothing to convolve.",
        {SOME: "if True:"},
    ),
    Misconception(
        "only_the_last_output",
        LAYER,
        "With a state you return the output of the last token alone. All that come are to be answered: a chunk may be several.",
        {
            GATED: f"y, z = (y[:, -1:], z[:, -1:]) if state is not None and seen.size(1) > 2 * self.config.d_conv else (y, z)\n        {GATED}"
        },
    ),
]
