"""Quantities: values with their units as exact decimals (docs/rules.md, Quantities).

An element is read from left to right, in its normalised text without thousands separators. Every look-ahead is bounded
or passes white space, digits or letters that no later place passes again, so that the cost is linear in the text.

A quantity is interned like a word: the digits of its value take the place of a word's first eight bytes; its exponent,
dimension and kind that of the length, as a number less than PAIR. Two values, or the numbers of a ratio, are interned
as a sequence, like words.
"""

from __future__ import annotations

import numpy as np

from ..compiler import helper, hot_kernel, inlined
from ..memory import (
    CANON,
    CODES,
    COUNTS,
    EPOCH,
    NORM,
    NORM_STOP,
    ODD_A,
    SLOTS,
    SPAN_STARTS,
    SPAN_STOPS,
    TERM_SPANS,
    TERMS,
    TEXT,
    mix,
    read_only,
    store8,
)
from .interning import EPOCH_SHIFT, NONE, ONE, PAIR, STRING_MASK, add_string, intern, intern_pair, probe, reset
from .measures import (
    ALMOST,
    ALPHANUMERIC,
    BASE_POWER,
    COLON,
    DIMENSION_BITS,
    EQUAL,
    GREATER_EQUAL,
    LESS_EQUAL,
    LETTERS_OF_ASCII,
    MIDDLE_DOT,
    NO_DIMENSION,
    NON_ASCII,
    PH,
    PLUS,
    PLUS_MINUS,
    RATIO,
    SLASH,
    STAR,
    TILDE,
    TIME,
    WHITE,
    ZERO,
    A,
    C,
    E,
    H,
    P,
    T,
    after_word,
    bytes_in,
    matches,
    may_end,
    read_measure,
    skip_white,
    word,
)
from .unicode import SEPARATOR, is_digit, normalize
from .words import (
    BEGIN,
    COMMA,
    DASH,
    DOT,
    FIRST_LETTER,
    FRESH,
    GAP,
    SPACE,
    X,
    append_word,
    copy_run,
    finish_run,
    joins_thousands,
    read_words,
    stripped_start,
    word_of,
)

MAX_DIGITS, MAX_MANTISSA = 12, 30
"""Most significant digits of a numeral, and most digits of its M: all values fit into an int64 in any unit."""
MAX_SUM_DIGITS = 18
"""Most significant digits of a sum of times."""
POWERS = 10 ** np.arange(MAX_SUM_DIGITS + 1)
MAX_SUM = 10**MAX_SUM_DIGITS
MAX_EXPONENT_DIGITS = 3
MAX_NUMBERS, MAX_NUMBER_DIGITS = 4, 9
"""Most numbers of a ratio, and most digits of one."""

PLAIN, LESS, MORE, AT_MOST, AT_LEAST, RANGE, TOLERANCE = range(7)
KINDS = ("", "<", ">", "<=", ">=", "range", "tolerance")
KIND_BITS, DIMENSIONS_BITS = 3, 2 * DIMENSION_BITS
SPAN_SHIFT = 32
EXPONENT_BITS, MIDDLE = 17, 1 << 16
"""MIDDLE is added to exponents, so that they are positive."""

LESS_SIGN, GREATER_SIGN = np.frombuffer(b"<>", np.uint8)
SEPARATORS = np.uint64(int.from_bytes(bytes([SEPARATOR]) * 8, "little"))

IN_RUN = bytes_in("0123456789%-._" + LETTERS_OF_ASCII, non_ascii=True)
BEGINS = bytes_in("0123456789.+-<>~≤≥≈pmluac")
"""First bytes of quantities."""
BEGINS_ANYWHERE = bytes_in("<>~≤≥≈")
WORD_COMPARISONS = bytes_in("lmu")
NOT_BEFORE, NOT_BEFORE_AFTER_DIGIT = bytes_in("._%^-+"), bytes_in(",:/")


TO, AND, THAN, LEAST, MOST = map(word, ("to", "and", "than", "least", "most"))
LESS_WORD, MORE_WORD, AT, UP, MINUS = map(word, ("less", "more", "at", "up", "minus"))
ABOUT, AROUND, APPROX, IMATELY, CA = map(word, ("about", "around", "approx", "imately", "ca"))
TEN = word("10^")
ROOM, AMBIENT, TEMP, ERATURE, ROOM_SHORT = map(word, ("room", "ambient", "temp", "erature", "r.t"))
ROOM_TEMPERATURE = word("rt")


@inlined
def after_words(norm, pos, first, second):
    """Return the position after two words at `pos`, each with white space after it, or 0."""
    pos = after_word(norm, pos, first)
    return after_word(norm, pos, second) if pos else pos


@inlined
def may_begin(norm, pos):
    """Return whether a quantity may begin at `pos`."""
    if pos == BEGIN:
        return True
    before = norm[pos - 1]
    if ALPHANUMERIC[before] or NOT_BEFORE[before]:
        return False
    return not (NOT_BEFORE_AFTER_DIGIT[before] and pos - 2 >= BEGIN and is_digit(norm[pos - 2]))


@inlined
def read_decimal(norm, pos, point):
    r"""Read `D`, `D.D` or `.D` with this decimal point at `pos`: (stop, digits, exponent, whether it has a point).

    Without trailing zeros in the digits. The stop is `pos` if there is none, and -1 if it has too many digits.
    """
    start = pos
    digits = exponent = zeros = significant = length = np.int64(0)
    has_point = False
    while True:
        byte = norm[pos]
        if is_digit(byte):
            length += 1
            exponent -= has_point
            if byte == ZERO:
                zeros += significant > 0
            else:
                significant += zeros + 1
                if significant <= MAX_DIGITS:
                    digits = digits * POWERS[zeros + 1] + np.int64(byte) - np.int64(ZERO)
                zeros = np.int64(0)
        elif byte == point and not has_point and is_digit(norm[pos + 1]):
            has_point = True
        else:
            break
        pos += 1
    if pos > start and (significant > MAX_DIGITS or length > MAX_MANTISSA):
        return np.int64(-1), digits, exponent, has_point
    return pos, digits, exponent + zeros if digits != 0 else np.int64(0), has_point


@inlined
def read_exponent(norm, pos):
    """Read an optional sign and one to three digits, which no digit follows: (stop, or 0 if there are none, value)."""
    negative = norm[pos] == DASH
    if negative or norm[pos] == PLUS:
        pos += 1
    start, value = pos, np.int64(0)
    while is_digit(norm[pos]) and pos - start <= MAX_EXPONENT_DIGITS:
        value = 10 * value + np.int64(norm[pos]) - np.int64(ZERO)
        pos += 1
    if pos == start or pos - start > MAX_EXPONENT_DIGITS:
        return np.int64(0), value
    return pos, -value if negative else value


@helper
def read_numeral(norm, pos):
    """Read the numeral at `pos`: (stop, or 0 if there is none, digits, exponent, whether it has a decimal comma)."""
    start = pos
    pos, digits, exponent, has_point = read_decimal(norm, start, np.uint8(DOT))
    if pos <= start:
        return np.int64(0), digits, exponent, False
    times = skip_white(norm, pos)
    if norm[times] == X or norm[times] == STAR or norm[times] == MIDDLE_DOT:
        times = skip_white(norm, times + 1)
        if matches(norm, times, TEN):
            stop, power = read_exponent(norm, times + 3)
            if stop:
                return stop, digits, exponent + power if digits != 0 else exponent, False
    if pos - start == 2 and matches(norm, start, TEN):
        stop, power = read_exponent(norm, pos + 1)
        if stop:
            return stop, np.int64(1), power, False
    if norm[pos] == E:
        stop, power = read_exponent(norm, pos + 1)
        if stop:
            return stop, digits, exponent + power if digits != 0 else exponent, False
    if norm[pos] == COMMA and not has_point and is_digit(norm[pos + 1]):
        pos, digits, exponent, _ = read_decimal(norm, start, np.uint8(COMMA))
        return max(pos, np.int64(0)), digits, exponent, True
    return pos, digits, exponent, False


@helper
def intern_quantity(workspace, digits, exponent, dimension, factor, power, kind):
    """Return the string of the quantity `digits` · 10 ^ `exponent` · `factor` · 10 ^ `power` of a dimension.

    Its digits without trailing zeros are less than 10¹⁸, but for times by time, whose further digits go beside the
    exponent.
    """
    ints = workspace.ints
    exponent += power
    further = np.int64(0)
    if digits == 0:
        exponent = np.int64(0)
    else:
        negative = digits < 0
        digits = abs(digits)
        if factor != 1:
            while factor % 10 == 0:
                factor //= 10
                exponent += 1
            upper = digits // 1_000_000 * factor
            further = upper // 10**12
            digits = upper % 10**12 * 1_000_000 + digits % 1_000_000 * factor
            if digits >= MAX_SUM:
                digits -= MAX_SUM
                further += 1
        while digits % 10 == 0:
            digits = digits // 10 + further % 10 * (MAX_SUM // 10)
            further //= 10
            exponent += 1
        if negative:
            digits = -digits
    value = further << EXPONENT_BITS | (exponent + MIDDLE)
    length = PAIR - 1 - ((value << DIMENSIONS_BITS | dimension) << KIND_BITS | kind)
    digest = np.int64(mix(np.uint64(digits) ^ workspace.seed ^ np.uint64(length) * ODD_A) >> ONE)
    slot = probe(workspace, workspace.bytes[CANON], np.int64(0), length, digits, NONE, digest)
    entry = ints[SLOTS, slot]
    if entry >> EPOCH_SHIFT == ints[COUNTS, EPOCH]:
        return entry & STRING_MASK
    return add_string(workspace, slot, np.int64(0), length, digits, digest)


def unpacked(head: int, length: int) -> tuple[int, int, int, int]:
    """Return what `intern_quantity` packs into a string: dimension, kind, digits and exponent of the value."""
    code, kind = divmod(PAIR - 1 - length, 1 << KIND_BITS)
    value, dimension = divmod(code, 1 << DIMENSIONS_BITS)
    further, exponent = divmod(value, 1 << EXPONENT_BITS)
    digits = abs(head) + further * MAX_SUM
    return dimension, kind, -digits if head < 0 else digits, exponent - MIDDLE


@inlined
def scale_of(dimension):
    """Return the power of ten of a value in units without prefix: that of pH, ratios and plain numbers is 0."""
    return np.int64(0) if dimension == NO_DIMENSION else np.int64(BASE_POWER)


@helper
def read_number_ratio(workspace, tables, pos):
    """Read two to four integers with `:` between them, or two with `/`: (stop, or 0 if there is no ratio, string)."""
    norm = workspace.bytes[NORM]
    none = np.int64(0)
    first = second = third = fourth = none
    count, stop = np.int64(0), pos
    while count < MAX_NUMBERS:
        if count:
            colon = skip_white(norm, stop)
            if norm[colon] == COLON:
                pos = skip_white(norm, colon + 1)
            elif count == 1 and norm[stop] == SLASH:
                pos = stop + 1
            else:
                break
        start, number = pos, none
        while is_digit(norm[pos]) and pos - start < MAX_NUMBER_DIGITS:
            number = 10 * number + np.int64(norm[pos]) - np.int64(ZERO)
            pos += 1
        if pos == start or is_digit(norm[pos]):
            break
        first, second, third, fourth = second, third, fourth, number
        stop = pos
        count += 1
        if count == 2 and norm[start - 1] == SLASH:
            break
    if count < 2 or not may_end(norm, tables, stop, False):
        return none, none
    divisor, one, string = none, np.int64(1), np.int64(-1)
    for number in (first, second, third, fourth):
        while number:
            divisor, number = number, divisor % number
    divisor = max(divisor, one)
    for k, number in enumerate((first, second, third, fourth)):
        if k >= MAX_NUMBERS - count:
            part = intern_quantity(workspace, number // divisor, none, np.int64(RATIO), one, none, np.int64(PLAIN))
            string = part if string < 0 else intern_pair(workspace, string, part)
    return stop, string


@helper
def read_mark(norm, pos):
    """Read an optional comparison or mark of approximation: (position of what follows, kind)."""
    byte = norm[pos]
    stop, kind = np.int64(0), np.int64(PLAIN)
    if byte == LESS_SIGN or byte == GREATER_SIGN:
        equal = norm[pos + 1] == EQUAL
        less = byte == LESS_SIGN
        kind = np.int64((AT_MOST if less else AT_LEAST) if equal else (LESS if less else MORE))
        stop = skip_white(norm, pos + 1 + equal)
    elif byte == LESS_EQUAL or byte == GREATER_EQUAL:
        kind = np.int64(AT_MOST if byte == LESS_EQUAL else AT_LEAST)
        stop = skip_white(norm, pos + 1)
    elif byte == TILDE or byte == ALMOST:
        stop = skip_white(norm, pos + 1)
    elif byte == A:
        stop = max(after_word(norm, pos, ABOUT), after_word(norm, pos, AROUND))
        if not stop and matches(norm, pos, APPROX):
            end = pos + APPROX[1]
            if matches(norm, end, IMATELY):
                end += IMATELY[1]
            else:
                end += norm[end] == DOT
            stop = skip_white(norm, end) if WHITE[norm[end]] else stop
        if not stop:
            stop, kind = after_words(norm, pos, AT, MOST), np.int64(AT_MOST)
        if not stop:
            stop, kind = after_words(norm, pos, AT, LEAST), np.int64(AT_LEAST)
    elif byte == C and matches(norm, pos, CA):
        end = pos + CA[1]
        end += norm[end] == DOT
        stop = skip_white(norm, end) if WHITE[norm[end]] else stop
    elif WORD_COMPARISONS[byte]:
        stop, kind = after_words(norm, pos, LESS_WORD, THAN), np.int64(LESS)
        if not stop:
            stop, kind = after_words(norm, pos, MORE_WORD, THAN), np.int64(MORE)
        if not stop:
            stop, kind = after_words(norm, pos, UP, TO), np.int64(AT_MOST)
    return (stop, kind) if stop else (pos, np.int64(PLAIN))


@inlined
def read_connector(norm, pos):
    """Read the `-`, `to`, `±` or `+/-` between two values, after white space: (position after it, or 0, kind)."""
    start = pos
    pos = skip_white(norm, start)
    stop, kind = np.int64(0), np.int64(RANGE)
    if norm[pos] == DASH:
        stop = skip_white(norm, pos + 1)
    elif norm[pos] == T and pos > start:
        stop = after_word(norm, pos, TO)
    elif norm[pos] == PLUS_MINUS:
        stop, kind = skip_white(norm, pos + 1), np.int64(TOLERANCE)
    elif norm[pos] == PLUS and norm[pos + 1] == SLASH and norm[pos + 2] == DASH:
        stop, kind = skip_white(norm, pos + 3), np.int64(TOLERANCE)
    return stop, kind


@helper
def read_second_value(workspace, tables, pos, kind, digits, exponent, has_comma, first_stop, dimension, factor, power):
    """Read the second value of a range or a tolerance at `pos`: (stop, or 0 if there is none, string).

    digits, exponent, has_comma: of the first numeral; dimension, factor, power: of its unit, if `first_stop` is not 0.
    """
    norm = workspace.bytes[NORM]
    none = np.int64(0)
    pos, other_digits, other_exponent, other_comma = read_numeral(norm, pos)
    if not pos:
        return none, none
    stop, other_dimension, other_factor, other_power = read_measure(norm, tables, pos, False)
    if first_stop:
        if not stop or other_dimension != dimension:
            return none, none
    elif stop:
        dimension, factor, power = other_dimension, other_factor, other_power
    elif has_comma or other_comma or not may_end(norm, tables, pos, False):
        return none, none
    else:
        stop = pos
        dimension = np.int64(NO_DIMENSION)
        factor = other_factor = np.int64(1)
        power = other_power = none
    scale = scale_of(dimension)
    first = intern_quantity(workspace, digits, exponent, dimension, factor, power + scale, kind)
    last = intern_quantity(workspace, other_digits, other_exponent, dimension, other_factor, other_power + scale, kind)
    return stop, intern_pair(workspace, first, last)


@helper
def without_zeros(digits, exponent):
    """Move the trailing zeros of a decimal from its digits to its exponent."""
    while digits != 0 and digits % 10 == 0:
        digits //= 10
        exponent += 1
    return digits, exponent


@inlined
def size_of_time(factor, power):
    """Return a number that orders the units of time."""
    return factor if power < 0 else 1_000 * factor


@helper
def add_times(norm, tables, pos, digits, exponent, factor, power):
    """Add the times with ever smaller units that follow a time: (stop, digits and exponent of the sum in seconds)."""
    size = size_of_time(factor, power)
    digits, exponent = without_zeros(digits * factor, exponent + power)
    while True:
        start = skip_white(norm, pos)
        if start == pos:
            return pos, digits, exponent
        start = max(start, after_word(norm, start, AND))
        stop, term, term_exponent, _ = read_numeral(norm, start)
        if not stop:
            return pos, digits, exponent
        stop, dimension, factor, power = read_measure(norm, tables, stop, False)
        if not stop or dimension != TIME or size_of_time(factor, power) >= size:
            return pos, digits, exponent
        term, term_exponent = without_zeros(term * factor, term_exponent + power)
        total, total_exponent = term, term_exponent
        if term == 0:
            total, total_exponent = digits, exponent
        elif digits != 0:
            larger, shift = digits, exponent - term_exponent
            if shift < 0:
                larger, total, shift, total_exponent = term, digits, -shift, exponent
            if shift >= MAX_SUM_DIGITS or larger >= POWERS[MAX_SUM_DIGITS - shift]:
                return pos, digits, exponent
            total, total_exponent = without_zeros(total + larger * POWERS[shift], total_exponent)
            if total >= MAX_SUM:
                return pos, digits, exponent
        pos, digits, exponent, size = stop, total, total_exponent, size_of_time(factor, power)


@helper
def read_quantity(workspace, tables, pos, last_digit):
    """Read the quantity at `pos` of NORM: (stop, or 0 if there is none, string).

    last_digit: position of the last digit, after which no second number needs to be looked for.
    """
    norm = workspace.bytes[NORM]
    none, one, plain = np.int64(0), np.int64(1), np.int64(PLAIN)
    if norm[pos] == P:
        if norm[pos + 1] != H:
            return none, none
        start = skip_white(norm, pos + 2)
        if norm[start] == EQUAL or norm[start] == COLON:
            start = skip_white(norm, start + 1)
        stop, digits, exponent, _ = read_decimal(norm, start, np.uint8(DOT))
        if stop <= start or not may_end(norm, tables, stop, False):
            return none, none
        return stop, intern_quantity(workspace, digits, exponent, np.int64(PH), one, none, plain)
    start, kind, signed, negative = pos, plain, False, False
    if is_digit(norm[pos]):
        while is_digit(norm[start]):
            start += 1
        if norm[start] == SLASH or norm[skip_white(norm, start)] == COLON:
            stop, string = read_number_ratio(workspace, tables, pos)
            if stop:
                return stop, string
        start = pos
    elif norm[pos] != DOT:
        start, kind = read_mark(norm, pos)
        minus = after_word(norm, start, MINUS)
        negative = norm[start] == DASH or minus > 0
        signed = negative or norm[start] == PLUS
        if signed:
            start = minus if minus else start + 1
    pos, digits, exponent, has_comma = read_numeral(norm, start)
    if not pos:
        return none, none
    if negative:
        digits = -digits
    may_have_two = not signed and kind == PLAIN and pos <= last_digit
    if may_have_two:
        second, both = read_connector(norm, pos)
        if second:
            stop, string = read_second_value(
                workspace, tables, second, both, digits, exponent, has_comma, none, none, one, none
            )
            if stop:
                return stop, string
    stop, dimension, factor, power = read_measure(norm, tables, pos, may_have_two)
    if stop and may_have_two:
        second, both = read_connector(norm, stop)
        if second:
            end, string = read_second_value(
                workspace, tables, second, both, digits, exponent, has_comma, stop, dimension, factor, power
            )
            if end:
                return end, string
        if norm[stop] == DASH:  # where only the first value of a range may end
            stop, dimension, factor, power = read_measure(norm, tables, pos, False)
    if stop:
        if dimension == TIME and not signed and stop <= last_digit:
            stop, digits, exponent = add_times(norm, tables, stop, digits, exponent, factor, power)
            factor, power = one, none
        return stop, intern_quantity(workspace, digits, exponent, dimension, factor, power + BASE_POWER, kind)
    if has_comma or not may_end(norm, tables, pos, False):
        return none, none
    return pos, intern_quantity(workspace, digits, exponent, np.int64(NO_DIMENSION), one, none, kind)


@inlined
def spells(norm, start, stop, head, rest):
    """Return whether `norm[start:stop]` is the word `head`, then `rest`."""
    if stop - start != head[1] + rest[1]:
        return False
    return matches(norm, start, head) and matches(norm, start + head[1], rest)


@helper
def append_words(workspace, terms, count):
    """Append the first `count` words in the spans to the first `terms` of TERMS; returns their new number."""
    ints = workspace.ints
    norm = workspace.bytes[NORM]
    for k in range(count):
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        length = stop - start
        is_room_temperature = length == ROOM_SHORT[1] and matches(norm, start, ROOM_SHORT)
        if k > 0 and spells(norm, start, stop, TEMP, ERATURE):
            begin, length = ints[SPAN_STARTS, k - 1], ints[SPAN_STOPS, k - 1] - ints[SPAN_STARTS, k - 1]
            if (length == ROOM[1] and matches(norm, begin, ROOM)) or (
                length == AMBIENT[1] and matches(norm, begin, AMBIENT)
            ):
                is_room_temperature = True
                terms -= 1
                start = ints[TERM_SPANS, terms] >> SPAN_SHIFT
        place, length = start, stop - start
        if is_room_temperature:
            place, length = np.int64(0), ROOM_TEMPERATURE[1]
            store8(norm, place, ROOM_TEMPERATURE[0])  # before the text
        ints[TERMS, terms] = intern(workspace, norm, place, length)
        ints[TERM_SPANS, terms] = start << SPAN_SHIFT | stop
        terms += 1
    return terms


@helper
def append_piece(workspace, terms, start, stop, text_end):
    """Append the words of the piece `norm[start:stop]` of a text, which ends at `text_end`, to the first `terms` of
    TERMS; returns their new number.
    """
    norm = workspace.bytes[NORM]
    count, state = np.int64(0), np.int64(FRESH)
    copies = text_end + GAP
    while start < stop:
        if not IN_RUN[norm[start]]:
            start += 1
            continue
        end = start
        while end < stop and IN_RUN[norm[end]]:
            end += 1
        if state == FRESH and norm[start] >= FIRST_LETTER and norm[end - 1] >= FIRST_LETTER:
            count, start = append_word(workspace, count, start, end), end
            continue
        run = stripped_start(norm, start, end)
        copies += 1
        count, copies, state = finish_run(workspace, count, copies, copy_run(norm, run, end, copies), state)
        start = end
    return append_words(workspace, terms, count)


@inlined
def is_before_three_digits(text, pos, stop):
    """Return whether exactly three digits begin at `pos`."""
    if stop - pos < 3 or not (is_digit(text[pos]) and is_digit(text[pos + 1]) and is_digit(text[pos + 2])):
        return False
    return pos + 3 >= stop or not is_digit(text[pos + 3])


@inlined
def is_thin_space(text, pos, stop):
    """Return whether U+2009 or U+202F is at `pos`."""
    if stop - pos < 3 or text[pos] != 0xE2 or text[pos + 1] != 0x80:
        return False
    return text[pos + 2] == 0x89 or text[pos + 2] == 0xAF


@helper
def rewrite(text, start, stop, begin):
    """Copy `text[start:stop]` to `text[begin:]` without U+2009 and U+202F before thousands, and with a point for the
    comma of `0,125`; returns (end of the copy, whether it has ¼, ½ or ¾).
    """
    end, has_fraction = begin, False
    pos = start
    while pos < stop:
        byte = text[pos]
        if (
            byte == 0xE2
            and pos > start
            and is_digit(text[pos - 1])
            and is_thin_space(text, pos, stop)
            and is_before_three_digits(text, pos + 3, stop)
        ):
            pos += 3
            continue
        has_fraction |= byte == 0xC2 and pos + 1 < stop and 0xBC <= text[pos + 1] <= 0xBE
        text[end] = byte
        end += 1
        pos += 1
    for k in range(begin + 1, end):
        if text[k] == COMMA and text[k - 1] == ZERO and is_before_three_digits(text, k + 1, end):
            before = text[k - 2] if k - 2 >= begin else np.uint8(SPACE)
            if not is_digit(before) and before != DOT and before != COMMA:
                text[k] = DOT
    return end, has_fraction


FRACTIONS = np.array([word_of(b"0.25"), word_of(b"0.5"), word_of(b"0.75")], np.uint64)
FRACTION_LENGTHS = np.array([4, 3, 4], np.int64)


@helper
def write_fractions(text, start, stop):
    """Copy `text[start:stop]` to `text[stop:]` with decimals for ¼, ½ and ¾; returns the end of the copy."""
    end = stop
    pos = start
    while pos < stop:
        if text[pos] == 0xC2 and pos + 1 < stop and 0xBC <= text[pos + 1] <= 0xBE:
            k = np.int64(text[pos + 1]) - 0xBC
            skipped = 1 if pos > start and is_digit(text[pos - 1]) else 0  # 1½ is 1.5
            store8(text, end, FRACTIONS[k] >> np.uint64(8 * skipped))
            end += FRACTION_LENGTHS[k] - skipped
            pos += 2
        else:
            text[end] = text[pos]
            end += 1
            pos += 1
    return end


@helper
def normalize_again(workspace, tables, start, stop):
    """Write the element `text[start:stop]` of TEXT, rewritten, to NORM, from BEGIN on; returns its end."""
    text, norm = workspace.bytes[TEXT], workspace.bytes[NORM]
    begin = np.int64(text.shape[0] // 2)
    end, has_fraction = rewrite(text, start, stop, begin)
    if has_fraction:
        begin, end = end, write_fractions(text, begin, end)
    return normalize(read_only(text), begin, end, norm, np.int64(BEGIN), workspace.ints[CODES], tables)


@helper
def join_thousands(norm, end):
    """Remove the commas before thousands from the text `norm[BEGIN:end]`; returns its new end."""
    used = np.int64(BEGIN)
    for pos in range(BEGIN, end):
        if norm[pos] != COMMA or not joins_thousands(norm, pos, end):
            norm[used] = norm[pos]
            used += 1
    return used


NEEDS_READING, NEEDS_REWRITING, MAY_HAVE_COMMAS = 1, 2, 4


@inlined
def needs_of(text, start, stop):
    """Return what the element `text[start:stop]` may need: NEEDS_READING for a digit, of any script, with
    MAY_HAVE_COMMAS for these, and NEEDS_REWRITING for commas, thin spaces and fractions.
    """
    needs = 0
    for k in range(start, stop):
        byte = text[k]
        if is_digit(byte):
            needs |= NEEDS_READING
        elif byte >= NON_ASCII:
            needs |= NEEDS_READING | MAY_HAVE_COMMAS
            if byte == 0xC2:
                needs |= NEEDS_REWRITING if 0xBC <= text[k + 1] <= 0xBE else 0
            elif byte == 0xE2:
                needs |= NEEDS_REWRITING if is_thin_space(text, k, stop) else 0
        elif byte == COMMA:
            needs |= NEEDS_REWRITING | MAY_HAVE_COMMAS
    return needs


@helper
def append_terms(workspace, tables, terms, start, stop, count):
    """Append the terms of the element `text[start:stop]` of TEXT to the first `terms` of TERMS; returns their new
    number.

    The element has been read last: the spans are of its `count` words.
    """
    needs = needs_of(workspace.bytes[TEXT], start, stop)
    if not needs & NEEDS_READING:
        return append_words(workspace, terms, count)
    ints, norm = workspace.ints, workspace.bytes[NORM]
    end = ints[COUNTS, NORM_STOP]
    if needs & NEEDS_REWRITING:
        end = normalize_again(workspace, tables, start, stop)
    last_digit = end - 1
    while last_digit >= BEGIN and not is_digit(norm[last_digit]):
        last_digit -= 1
    if last_digit < BEGIN:
        return append_words(workspace, terms, count)
    if needs & MAY_HAVE_COMMAS:
        end = join_thousands(norm, end)
    store8(norm, end, SEPARATORS)
    piece = pos = np.int64(BEGIN)
    while pos < end:
        if BEGINS[norm[pos]] and (BEGINS_ANYWHERE[norm[pos]] or may_begin(norm, pos)):
            stop, string = read_quantity(workspace, tables, pos, last_digit)
            if stop:
                if piece < pos:
                    terms = append_piece(workspace, terms, piece, pos, end)
                ints[TERMS, terms] = string
                ints[TERM_SPANS, terms] = pos << SPAN_SHIFT | stop
                terms += 1
                piece = pos = stop
                continue
        pos += 1
    return append_piece(workspace, terms, piece, end, end) if piece < end else terms


@inlined
def dimension_of(head, length, heads, lengths, first):
    """Return the dimension of a term, or -1 of a word.

    head, length: of its string; heads, lengths: those of all strings, from `first` on.
    """
    while length == PAIR:
        string = first + (head >> 32)
        head, length = heads[string], lengths[string]
    if length > PAIR:
        return np.int64(-1)
    return (PAIR - 1 - length) >> KIND_BITS & ((1 << DIMENSIONS_BITS) - 1)


@hot_kernel
def parameter_terms(text, tables, workspace):
    """Read the terms of an element into TERMS and TERM_SPANS, for explanations; returns their number.

    text: uint8, UTF-8. workspace: large enough for it.
    """
    reset(workspace)
    for k in range(text.shape[0]):
        workspace.bytes[TEXT, k] = text[k]
    stop = np.int64(text.shape[0])
    count = read_words(workspace, tables, read_only(workspace.bytes[TEXT]), np.int64(0), stop)
    return append_terms(workspace, tables, np.int64(0), np.int64(0), stop, count)
