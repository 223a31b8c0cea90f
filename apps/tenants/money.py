"""How sums of money are written: integer micros of the site's one currency, for people."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from django.conf import settings

MICROS = 1_000_000
_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
# Decimals of a whole sum (ISO 4217); two everywhere else.
_DECIMALS = {
    **dict.fromkeys(("CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}
_SMALL_DIGITS = 3  # significant ones, of sums below one unit: an answer costs a fraction of a cent
_MOST_DECIMALS = 6  # those of a micro


def format_money(micros: float, currency: str | None = None) -> str:
    """ "$1,234.50", "$0.00123", "CHF 12.30"; a sum above 0 is never written as 0.

    `micros` may be a fraction where it is an average. `currency` is an ISO 4217 code, the
    setting CURRENCY without one.
    """
    code = currency or settings.CURRENCY
    amount = abs(Decimal(str(micros))) / MICROS
    least = Decimal(1) / MICROS
    words = f"< {_with_currency(least, code)}" if 0 < amount < least else ""
    sign = "−" if micros < 0 else ""
    return sign + (words or _with_currency(amount, code))


def exact_amount(micros: int) -> str:
    """All digits, for programs: "0.001230"."""
    return f"{Decimal(micros) / MICROS:.6f}"


def _with_currency(amount: Decimal, code: str) -> str:
    figure = f"{amount.quantize(Decimal(1).scaleb(-_decimals(amount, code)), ROUND_HALF_UP):,}"
    symbol = _SYMBOLS.get(code)
    return f"{symbol}{figure}" if symbol else f"{code}\N{NO-BREAK SPACE}{figure}"


def _decimals(amount: Decimal, code: str) -> int:
    whole = _DECIMALS.get(code, 2)
    if amount == 0 or amount >= 1:
        return whole
    # 0.00123 has its first digit at the third place. What rounds up to one is a whole sum.
    places = min(_MOST_DECIMALS, _SMALL_DIGITS - 1 - amount.adjusted())
    rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    if rounded >= 1:
        return whole
    needed = -rounded.normalize().as_tuple().exponent  # type: ignore[operator]
    return max(whole, min(places, needed))
