"""Pairs of parameters that a scientist calls equal, by their kind, and pairs that a scientist calls different."""

from __future__ import annotations

__all__ = ["DIFFERENT", "EQUAL"]

EQUAL = {
    "prefixes": [
        ("0.5 ml", "500 µl"),
        ("0.25 mg", "250 µg"),
        ("100 nm", "0.1 µm"),
        ("0.02 mM", "20 µM"),
        ("1.5 kb", "1500 bp"),
    ],
    "names of units": [
        ("5 ml", "5 milliliters"),
        ("30 s", "30 seconds"),
        ("37 °C", "37 degrees Celsius"),
        ("5%", "5 percent"),
        ("300 × g", "300 xg"),
        ("10 U", "10 units"),
    ],
    "times": [
        ("0.5 h", "30 min"),
        ("1 h 30 min", "90 min"),
        ("1 h and 30 min", "1.5 h"),
        ("2 days", "48 h"),
        ("1 week", "7 days"),
        ("1h30min", "90 min"),
        ("two hours", "2 h"),
    ],
    "numbers": [
        ("½ ml", "0.5 ml"),
        ("1½ h", "90 min"),
        (".5 ml", "0.5 ml"),
        ("0,5 ml", "0.5 ml"),
        ("5.0 ml", "5 ml"),
        ("12,000 rpm", "12000 rpm"),
        ("12\u202f000 × g", "12,000 × g"),
        ("-20 °C", "minus 20 °C"),
    ],
    "powers": [
        ("1e6 cells", "10^6 cells"),
        ("10⁶ cells", "1 × 10^6 cells"),
        ("1,000,000 cells", "1 × 10^6 cells"),
        ("2 × 10⁵ cells/ml", "200,000 cells/ml"),
        ("1-2 × 10^6 cells", "1 × 10^6 to 2 × 10^6 cells"),
    ],
    "rates and concentrations": [
        ("50 µg/ml", "50 ng/µl"),
        ("1 mg/ml", "1 g/l"),
        ("1 ml/min", "60 ml/h"),
        ("0.5 M", "0.5 mol/l"),
        ("100 mg l⁻¹", "100 mg/l"),
        ("2 µg per ml", "2 µg/ml"),
        ("5 U/µl", "5000 U/ml"),
    ],
    "ratios": [
        ("1:1000", "1/1000"),
        ("1:1000", "1 : 1000"),
        ("1:50", "1 to 50"),
        ("1:50 dilution", "diluted 1:50"),
    ],
    "ranges and limits": [
        ("5–10 min", "5 to 10 min"),
        ("30-60 s", "0.5-1 min"),
        ("25 ± 2 °C", "25 +/- 2 °C"),
        ("≤5 min", "at most 5 min"),
        ("<10 µl", "less than 10 µl"),
        ("about 5 ml", "~5 ml"),
        ("3-5 ml", "between 3 and 5 ml"),
    ],
    "other": [
        ("room temperature", "RT"),
        ("pH 7.4", "pH = 7.4"),
        ("2-fold", "2×"),
        ("98.6 °F", "37 °C"),
        ("at 37 °C for 5 min", "37 °C, 5 min"),
        ("3 times", "three times"),
    ],
}

DIFFERENT = {
    "amounts": [
        ("5 ml", "500 ml"),
        ("1.5 ml", "15 ml"),
        ("1.5 ml", "1,500 ml"),
        ("37 °C", "-37 °C"),
        ("2 × 10^6 cells", "2 × 10^5 cells"),
        ("10⁶ cells", "106 cells"),
        ("pH 7.4", "pH 4.7"),
    ],
    "units": [
        ("5 ml", "5 µl"),
        ("10 min", "10 h"),
        ("0.5 M", "0.5 mM"),
        ("37 °C", "37 °F"),
        ("300 × g", "300 g"),
        ("1 ml/min", "1 ml/h"),
        ("50 µg/ml", "50 µg"),
        ("10 mM", "10 mm"),
    ],
    "the same words": [
        ("1:1000", "1000:1"),
        ("5 ml", "<5 ml"),
        ("≥95%", "≤95%"),
        ("5-10 min", "5 min, 10 min"),
        ("4 to 37 °C", "37 to 4 °C"),
        ("3 times for 5 min", "5 times for 3 min"),
        ("25 ± 2 °C", "2 ± 25 °C"),
    ],
    "which number belongs to what": [
        ("10 min on ice, 30 min at 37 °C", "30 min on ice, 10 min at 37 °C"),
        ("2 ml buffer, 5 ml ethanol", "5 ml buffer, 2 ml ethanol"),
    ],
    "words": [("overnight", "1 h")],
}
