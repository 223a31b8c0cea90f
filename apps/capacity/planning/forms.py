"""A plan's inputs out of an address. What cannot be computed with is answered at its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from django import forms
from django.conf import settings

from apps.capacity.arithmetic import KV_PRECISIONS, PRECISIONS, Chip, Precision, Shape
from apps.capacity.catalogue.selectors import list_prices, rentals
from apps.capacity.planning.inputs import (
    Assumptions,
    Demand,
    Draft,
    HourPrice,
    ListedPrice,
    PlanInputs,
    Promises,
    Tokens,
)
from apps.capacity.planning.ledger import LedgerDemand, Spread
from apps.tenants.models import Tenant
from apps.tenants.money import MICROS

OWN = "own"
TYPED, LEDGER = "typed", "ledger"
Q4_1 = Precision(
    "q4_1",
    "Q4_1 (llama.cpp)",
    Fraction(5),
    "bf16",
    "4 bits, and a 16-bit scale and minimum for each 32 values. Embeddings are counted in 16 bits; "
    "llama.cpp shrinks them too.",
)
RUNGS = {**PRECISIONS, Q4_1.key: Q4_1}
_NO_MODEL = "There is no such model in the catalogue. Choose one, or add it in the administration."
_NO_GPU = "There is no such GPU in the catalogue. Choose one, or add it in the administration."
_DAYS = (("7", "7 days"), ("30", "30 days"), ("90", "90 days"))
# Groups of the form, in the order in which a page shows them: key, title, fields.
GROUPS: tuple[tuple[str, str, str], ...] = (
    ("model", "Model and GPUs", "model gpu gpus precision kv context"),
    (
        "own",
        "Figures of another GPU",
        "own_memory_gb own_bandwidth_gb_s own_tflops own_fp8_tflops",
    ),
    (
        "demand",
        "What is asked of it",
        "source tenant days growth prompt_mean prompt_p95 output_mean output_p95 peak_per_s a_day "
        "reuse",
    ),
    ("promises", "What you promise (empty: nothing)", "ttft_ms tpot_ms e2e_ms"),
    ("money", "Money", "hour staff overhead"),
    (
        "assumptions",
        "Assumptions, until you have measured",
        "prefill_efficiency decode_efficiency utilisation memory_share reserve_gb most_batch "
        "link_gb_s",
    ),
    ("draft", "Guessing ahead (speculative decoding)", "draft draft_tokens acceptance"),
)


class _Number(forms.FloatField):
    """A finite number within bounds; HTML's own spinner would round it to steps."""

    def __init__(self, label: str, least: float, most: float, help_text: str = "", **more: Any):
        super().__init__(
            label=label,
            min_value=least,
            max_value=most,
            help_text=help_text,
            widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
            error_messages={
                "required": "Give a number.",
                "invalid": "Give a number, such as 2000 or 0.5.",
                "min_value": f"Give a number from {least:,g} to {most:,g}.",
                "max_value": f"Give a number from {least:,g} to {most:,g}.",
            },
            **more,
        )


class _Whole(forms.IntegerField):
    def __init__(self, label: str, least: int, most: int, help_text: str = ""):
        bounds = f"Give a whole number from {least:,} to {most:,}."
        super().__init__(
            label=label,
            min_value=least,
            max_value=most,
            help_text=help_text,
            error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), bounds),
        )


def _choice(label: str, missing: str, help_text: str = "", **more: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        help_text=help_text,
        error_messages={"required": missing, "invalid_choice": missing},
        **more,
    )


class PlanForm(forms.Form):
    """Everything that a plan is made from. Shares are typed in percent."""

    model = _choice("Model", _NO_MODEL)
    gpu = _choice("GPU", _NO_GPU)
    gpus = _Whole("GPUs of a machine", 1, 1024, "They share one copy of the model.")
    precision = _choice("Weights in", "Choose one of the list.")
    kv = _choice("KV cache in", "Choose one of the list.", "What the model remembers of a text.")
    context = _Whole("Context of a session", 1, 10_000_000, "Tokens at most, prompt and answer.")
    own_memory_gb = _Number("Memory, GB", 0.001, 100_000, "Of one.", required=False)
    own_bandwidth_gb_s = _Number("Memory bandwidth, GB/s", 0.001, 10**6, required=False)
    own_tflops = _Number(
        "16-bit throughput, TFLOPS",
        0.000_001,
        10**6,
        "Dense; tables often print twice that.",
        required=False,
    )
    own_fp8_tflops = _Number(
        "FP8 throughput, TFLOPS", 0.000_001, 10**6, "Empty: it has none.", required=False
    )
    source = _choice(
        "Where the figures are from",
        "Choose one of the list.",
        choices=[(TYPED, "Typed below"), (LEDGER, "This site's ledger")],
    )
    tenant = forms.CharField(
        label="Of which organisation",
        required=False,
        max_length=100,
        help_text="Of the ledger. Its short name; empty: all of them.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "tenant-names"}),
    )
    days = _choice("Of the last", "Choose one of the list.", "Of the ledger.", choices=_DAYS)
    growth = _Number("Times as many", 0.001, 10_000, "Growth to plan for; 1: as it is.")
    prompt_mean = _Number("Prompt, mean", 1, 1_000_000, "Tokens.")
    prompt_p95 = _Number("Prompt, long", 1, 1_000_000, "Tokens; 95 % are shorter.")
    output_mean = _Number("Answer, mean", 1, 1_000_000, "Tokens.")
    output_p95 = _Number("Answer, long", 1, 1_000_000, "Tokens; 95 % are shorter.")
    peak_per_s = _Number("Requests a second", 0.000_001, 1_000_000, "At the busiest time.")
    a_day = _Number("Requests a day", 0.001, 10**11, "On average.")
    reuse = _Number("Reused prompt, %", 0, 99.9, "Of prompt tokens, already in the prefix cache.")
    ttft_ms = _Number("First token within, ms", 0.001, 10**7, required=False)
    tpot_ms = _Number("Then a token every, ms", 0.001, 10**7, required=False)
    e2e_ms = _Number("Whole answer within, ms", 0.001, 10**8, required=False)
    hour = _Number("A GPU's hour", 0, 100_000, required=False)
    staff = _Number("People's time a month", 0, 10**9, required=False)
    draft = _choice("Draft model", "Choose one of the list.", "For guessing ahead.", required=False)
    draft_tokens = _Whole("Tokens guessed at a time", 1, 64)
    acceptance = _Number(
        "Guesses accepted, %", 0, 100, "As measured; empty: not measured.", required=False
    )
    memory_share = _Number("Memory the engine takes, %", 1, 100, "vLLM's default is 90.")
    reserve_gb = _Number("Kept free on each GPU, GB", 0, 10_000, "Runtime and activations.")
    prefill_efficiency = _Number(
        "Reading reaches, %", 1, 100, "Of the chip's throughput. Replace it by a measurement."
    )
    decode_efficiency = _Number(
        "Writing reaches, %", 1, 100, "Of its bound. Replace it by a measurement."
    )
    utilisation = _Number("Busy at the peak, %", 1, 99, "Beyond it, waiting grows without bound.")
    overhead = _Number("On top of a GPU's hour, %", 0, 1000, "Storage, traffic, idle time.")
    most_batch = _Whole("Answers at a time, at most", 1, 100_000, "A setting of the engine.")
    link_gb_s = _Number("Between machines, GB/s", 0.001, 10**6, "50 is 400 Gbit/s.")

    def __init__(
        self,
        data: Mapping[str, str],
        *,
        shapes: Sequence[Shape],
        chips: Sequence[Chip],
    ) -> None:
        super().__init__(data)
        self.shapes = {shape.name: shape for shape in shapes}
        self.chips = {chip.name: chip for chip in chips}
        names = [(name, name) for name in self.shapes]
        self._offer("model", names)
        self._offer("draft", [("", "None"), *names])
        self._offer("gpu", [*((n, n) for n in self.chips), (OWN, "Another: give its figures")])
        self._offer("precision", [(rung.key, rung.label) for rung in RUNGS.values()])
        self._offer("kv", [(kv.key, kv.label) for kv in KV_PRECISIONS.values()])
        self.fields["hour"].help_text = f"In {settings.CURRENCY}; empty: prices of the catalogue."
        self.fields["staff"].help_text = f"In {settings.CURRENCY}; empty: not counted."

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = choices

    def clean_tenant(self) -> Tenant | None:
        slug = self.cleaned_data["tenant"].strip()
        if not slug:
            return None
        found = Tenant.objects.filter(slug=slug).first()
        if found is None:
            raise forms.ValidationError("There is no organisation of that short name.")
        return found

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for name in ("prompt", "output"):
            mean, long = cleaned.get(f"{name}_mean"), cleaned.get(f"{name}_p95")
            if mean and long and long < mean:
                self.add_error(f"{name}_p95", "The long one is no shorter than the mean.")
        if cleaned.get("gpu") == OWN:
            for name in ("own_memory_gb", "own_bandwidth_gb_s", "own_tflops"):
                if name not in self.errors and cleaned.get(name) is None:
                    self.add_error(name, "Another GPU needs this figure.")
        return cleaned

    @property
    def groups(self) -> list[tuple[str, str, list[forms.BoundField]]]:
        """Key, title and fields of each group of the page."""
        return [
            (key, title, [self[name] for name in names.split()]) for key, title, names in GROUPS
        ]

    @property
    def uses_ledger(self) -> bool:
        return bool(self.cleaned_data["source"] == LEDGER)

    def plan_inputs(self, found: LedgerDemand | None) -> PlanInputs:
        """Of a valid form. `found`: the demand, where it is the ledger's. Raises PlanInvalid."""
        given = self.cleaned_data
        return PlanInputs(
            shape=self.shapes[given["model"]],
            chip=self._chip(),
            gpus=given["gpus"],
            precision=RUNGS[given["precision"]],
            kv=KV_PRECISIONS[given["kv"]],
            context_tokens=given["context"],
            demand=self._demand(found),
            promises=Promises(given["ttft_ms"], given["tpot_ms"], given["e2e_ms"]),
            assumptions=self._assumptions(),
            hours=self._hours(),
            listed=_listed(given["model"]),
            staff_micros_a_month=round((given["staff"] or 0) * MICROS),
            draft=self._draft(),
        )

    def _chip(self) -> Chip:
        given = self.cleaned_data
        if given["gpu"] != OWN:
            return self.chips[given["gpu"]]
        return Chip(
            name="chip of your own figures",
            memory_bytes=round(given["own_memory_gb"] * 10**9),
            bandwidth_gb_s=given["own_bandwidth_gb_s"],
            bf16_tflops=given["own_tflops"],
            fp8_tflops=given["own_fp8_tflops"],
            source="typed",
        )

    def _demand(self, found: LedgerDemand | None) -> Demand:
        given = self.cleaned_data
        typed = Demand(
            prompt=Tokens.typed(given["prompt_mean"], given["prompt_p95"]),
            output=Tokens.typed(given["output_mean"], given["output_p95"]),
            peak_per_s=given["peak_per_s"] * given["growth"],
            a_day=given["a_day"] * given["growth"],
            prefix_reuse=given["reuse"] / 100,
            origin="typed" + self._growing(),
        )
        if found is None:
            return typed
        return replace(
            typed,
            prompt=_tokens(found.prompt),
            output=_tokens(found.output),
            peak_per_s=found.busiest_per_s * given["growth"],
            a_day=found.calls_a_day * given["growth"],
            # A model reads at least the last token of a prompt.
            prefix_reuse=min(found.prefix_reuse or 0.0, 0.999),
            origin=f"the ledger, {found.complete:,} answers of {found.measured_days:.1f} days"
            + self._growing(),
        )

    def _growing(self) -> str:
        growth = self.cleaned_data["growth"]
        return f", times {growth:g}" if growth != 1 else ""

    def _assumptions(self) -> Assumptions:
        given = self.cleaned_data
        return Assumptions(
            memory_share=given["memory_share"] / 100,
            reserve_bytes=round(given["reserve_gb"] * 10**9),
            prefill_efficiency=given["prefill_efficiency"] / 100,
            decode_efficiency=given["decode_efficiency"] / 100,
            utilisation=given["utilisation"] / 100,
            overhead=given["overhead"] / 100,
            most_batch=given["most_batch"],
            link_gb_s=given["link_gb_s"],
        )

    def _hours(self) -> list[HourPrice]:
        given = self.cleaned_data
        if given["hour"] is not None:
            micros = round(given["hour"] * MICROS)
            return [HourPrice("the price that you typed", micros, micros, "typed")]
        if given["gpu"] == OWN:
            return []
        return [
            HourPrice(
                row.provider,
                row.low_micros_per_hour,
                row.high_micros_per_hour,
                row.source,
                row.as_of,
            )
            for row in rentals(given["gpu"])
        ]

    def _draft(self) -> Draft | None:
        given = self.cleaned_data
        if not given["draft"]:
            return None
        accepted = given["acceptance"]
        return Draft(
            self.shapes[given["draft"]],
            given["draft_tokens"],
            None if accepted is None else accepted / 100,
        )


def _tokens(spread: Spread) -> Tokens:
    # Few answers may have a mean above their 95th percentile: one long one does.
    return Tokens(spread.mean, max(spread.mean, spread.p95), spread.stdev)


def _listed(model: str) -> list[ListedPrice]:
    return [
        ListedPrice(
            label=f"{row.provider}, {row.model}",
            input_micros_per_mtok=row.input_micros_per_mtok,
            output_micros_per_mtok=row.output_micros_per_mtok,
            cached_micros_per_mtok=(
                row.input_micros_per_mtok
                if row.cached_input_micros_per_mtok is None
                else row.cached_input_micros_per_mtok
            ),
            source=row.source,
            as_of=row.as_of,
            hour_micros=row.hour_micros,
        )
        for row in list_prices(comparable_to=model)
    ]
