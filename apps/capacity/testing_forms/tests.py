"""The whole form of a load test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.types import Lengths
from apps.capacity.loadtests.workloads import synthetic_workload, trace_workload
from apps.capacity.testing_forms.choices import (
    ADDRESS,
    GATEWAY,
    TargetChoice,
    grouped,
    host_of,
    is_loopback,
)
from apps.capacity.testing_forms.plans import PlanForm
from apps.tenants.money import MICROS

ALL_TENANTS = "all"
TRACE_BYTES_MAX = 10 * 2**20
_WORKLOADS = (
    ("synthetic", "Made up, around a mean length"),
    ("trace", "A trace: lengths and times out of a file"),
    ("ledger", "Lengths as an organisation's own answers had"),
)
_CONDITIONS = (
    ("engine", "Engine", "llama.cpp, vLLM, TGI …"),
    ("engine_version", "Its version", ""),
    ("precision", "Precision of the weights", "BF16, FP8, Q8_0 …"),
    ("kv_precision", "Precision of the KV cache", "f16, FP8, q8_0 …"),
    ("context_policy", "Context", "tokens, slots, what is cut"),
    ("machine", "Machine", ""),
    ("gpu", "GPU", ""),
)


CONDITION_NAMES = (*(name for name, _, _ in _CONDITIONS), "gpus", "hour_price")


class LoadTestForm(PlanForm):
    """All of it. `targets` are what is configured, `tenants` pairs of slug and name."""

    name = forms.CharField(
        label="Name",
        max_length=200,
        required=False,
        help_text="Without one it is named by its target.",
    )
    target = forms.ChoiceField(label="Model server")
    url = forms.CharField(
        label="Address",
        max_length=500,
        required=False,
        help_text="http://host:port/v1 of an OpenAI-compatible server, or http://host:port of TGI.",
    )
    kind = forms.ChoiceField(
        label="It speaks",
        choices=(("openai", "OpenAI’s API"), ("tgi", "TGI’s API")),
        required=False,
    )
    model = forms.CharField(
        label="Model there", max_length=200, required=False, help_text="Empty: the one it serves."
    )
    key_variable = forms.CharField(
        label="Variable of its key",
        max_length=100,
        required=False,
        help_text="The environment variable that holds the key, where a worker sees it. "
        "The key itself is typed nowhere.",
    )
    payer = forms.ChoiceField(
        label="Organisation that pays",
        required=False,
        help_text="A key of its own is made for the test, and revoked after it. What is "
        "generated is booked there, and its limits hold.",
    )
    host_again = forms.CharField(
        label="Its host once more",
        max_length=300,
        required=False,
        help_text="Unless that is this machine: nobody else’s server is to be hit by a slip.",
    )
    workload = forms.ChoiceField(
        label="Lengths of prompts and answers", choices=_WORKLOADS, initial="synthetic"
    )
    prompt_mean = forms.IntegerField(
        label="Prompt tokens, mean", min_value=1, max_value=1_000_000, initial=100, required=False
    )
    prompt_stdev = forms.FloatField(
        label="Prompt tokens, standard deviation",
        min_value=0,
        max_value=1e6,
        initial=20,
        required=False,
    )
    output_mean = forms.IntegerField(
        label="Answer tokens, mean", min_value=1, max_value=1_000_000, initial=16, required=False
    )
    output_stdev = forms.FloatField(
        label="Answer tokens, standard deviation",
        min_value=0,
        max_value=1e6,
        initial=4,
        required=False,
    )
    trace = forms.FileField(
        label="Trace",
        required=False,
        help_text="JSON Lines: at_s, prompt_tokens and output_tokens of each request, or "
        "Mooncake’s names.",
    )
    tenant = forms.ChoiceField(label="Organisation", required=False)
    days = forms.IntegerField(
        label="Of the last days", min_value=1, max_value=366, initial=7, required=False
    )
    shared_prefix_tokens = forms.IntegerField(
        label="Tokens that all prompts begin with alike",
        min_value=0,
        max_value=1_000_000,
        initial=0,
        required=False,
        help_text="0, unless the prefix cache is what you study: it would flatter everything else.",
    )
    gpus = forms.IntegerField(label="GPUs, number", min_value=0, max_value=100_000, required=False)
    hour_price = forms.DecimalField(
        label="Price of the machine’s hour",
        min_value=0,
        max_value=10_000_000,
        max_digits=13,
        decimal_places=6,
        required=False,
        help_text="Of all of it. Costs are computed from that.",
    )

    def __init__(
        self,
        *args: Any,
        targets: Sequence[TargetChoice],
        tenants: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._targets = {each.value: each for each in targets}
        cast(forms.ChoiceField, self.fields["target"]).choices = grouped(targets)
        tenant = cast(forms.ChoiceField, self.fields["tenant"])
        tenant.choices = [(ALL_TENANTS, "All organisations together"), *tenants]
        cast(forms.ChoiceField, self.fields["payer"]).choices = [("", "Choose …"), *tenants]
        for name, label, hint in _CONDITIONS:
            self.fields[name] = forms.CharField(label=label, max_length=200, required=False)
            self.fields[name].widget.attrs["placeholder"] = hint
        self.order_fields(["name", "target"])

    @property
    def chosen(self) -> TargetChoice | None:
        """The configured target that was chosen; None for an address."""
        return self._targets.get(str(self.cleaned_data.get("target")))

    @property
    def condition_fields(self) -> list[forms.BoundField]:
        return [self[name] for name, _, _ in _CONDITIONS]

    @property
    def typed_conditions(self) -> dict[str, Any]:
        """What the person said of the server; not what was left empty."""
        cleaned = self.cleaned_data
        typed = {name: cleaned[name].strip() for name, _, _ in _CONDITIONS if cleaned.get(name)}
        if cleaned.get("gpus") is not None:
            typed["gpus"] = cleaned["gpus"]
        if cleaned.get("hour_price") is not None:
            typed["hour_micros"] = int(cleaned["hour_price"] * MICROS)
        return typed

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts beside this machine that the person has asked for by name."""
        again = str(self.cleaned_data.get("host_again") or "").strip()
        return (again,) if again else ()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("target") == ADDRESS:
            self._check_address(cleaned)
        elif chosen := self.chosen:
            self._check_chosen(chosen, cleaned)
        if cleaned.get("workload") == "synthetic":
            self._check_lengths(cleaned)
        elif cleaned.get("workload") == "trace":
            self._read_trace(cleaned)
        if cleaned.get("arrivals") == "trace" and cleaned.get("workload") != "trace":
            self.add_error("arrivals", "Only a trace has times of its own: choose one below.")
        return cleaned

    def _check_address(self, cleaned: Mapping[str, Any]) -> None:
        host = host_of(str(cleaned.get("url") or ""))
        if host is None:
            self.add_error("url", "Give an address that begins with http:// or https://.")
            return
        self._check_host("" if is_loopback(host) else host, cleaned)

    def _check_chosen(self, chosen: TargetChoice, cleaned: Mapping[str, Any]) -> None:
        if chosen.via == GATEWAY and not cleaned.get("payer"):
            self.add_error("payer", "Choose who pays for what is generated.")
        self._check_host(chosen.host, cleaned)

    def _check_host(self, host: str, cleaned: Mapping[str, Any]) -> None:
        """`host` "": this machine."""
        again = str(cleaned.get("host_again") or "").strip().lower()
        if host and again != host:
            self.add_error(
                "host_again", f"To load {host}, which is not this machine, type its name."
            )

    def _check_lengths(self, cleaned: dict[str, Any]) -> None:
        needed = ("prompt_mean", "output_mean")
        for name in needed:
            if cleaned.get(name) is None and name not in self.errors:
                self.add_error(name, "Give a number of tokens.")
        if not self.errors.keys() & {*needed, "prompt_stdev", "output_stdev"}:
            cleaned["made_up"] = synthetic_workload(
                prompt=_lengths(cleaned["prompt_mean"], cleaned.get("prompt_stdev")),
                output=_lengths(cleaned["output_mean"], cleaned.get("output_stdev")),
                shared_prefix_tokens=cleaned.get("shared_prefix_tokens") or 0,
            )

    def _read_trace(self, cleaned: dict[str, Any]) -> None:
        file = cleaned.get("trace")
        if file is None:
            if "trace" not in self.errors:
                self.add_error("trace", "Choose a file.")
            return
        if file.size > TRACE_BYTES_MAX:
            self.add_error("trace", f"A trace has at most {TRACE_BYTES_MAX // 2**20} MiB.")
            return
        try:
            cleaned["made_up"] = trace_workload(
                file,
                name=file.name,
                keep_times=cleaned.get("arrivals") == "trace",
                shared_prefix_tokens=cleaned.get("shared_prefix_tokens") or 0,
            )
        except WorkloadInvalid as exc:
            self.add_error("trace", str(exc))


def _lengths(mean: int, stdev: float | None) -> Lengths:
    """Cut off at four standard deviations, and never below one token."""
    wide = math.ceil(4 * (stdev or 0.0))
    return Lengths(
        mean=mean, stdev=stdev or 0.0, least=max(1, mean - wide), most=min(1_000_000, mean + wide)
    )
