# Atomics that are made of others.


def _all_true(flags):
    if len(flags.shape) == 0:
        return flags
    else:
        return reduce(flags.to(int32), None, _smaller) != 0


def _now():
    # Nanoseconds, the same number for all threads of the program.
    reading = clock()
    if len(reading.shape) == 0:
        return reading
    else:
        return reduce(reading, 0, _larger)


def atomic_poll(pointer, expected_value, sem: constexpr = None, scope: constexpr = None, timeout_ns=None):
    """Waits until the memory at every pointer has held the expected value, or until the time is over. Since Triton 3.9.

    :param pointer: a pointer or a block of pointers to integers of 16, 32 or 64 bits. Each is read at least once.
    :param expected_value: cast to the element type and broadcast to the pointers' shape.
    :param sem: `"acquire"` (the default): what was stored before the release that made an element as expected is visible afterwards; or
     `"relaxed"`.
    :param scope: `"gpu"` (the default), `"cta"` or `"sys"`.
    :param timeout_ns: an integer: nanoseconds that all elements together may take; None waits for ever.
    :returns: int1, of the pointers' shape: where the expected value was seen.
    """
    place = to_tensor(pointer)
    element: constexpr = place.dtype.element_ty
    static_assert(element.is_int() and element.primitive_bitwidth >= 16, "atomic_poll needs pointers to integers of 16, 32 or 64 bits")
    expected = broadcast_to(to_tensor(expected_value).to(element), place.shape)
    begin = _now() if timeout_ns is not None else 0
    seen = atomic_load(place, None, sem, scope) == expected
    if timeout_ns is None:
        while not _all_true(seen):
            seen = seen | (atomic_load(place, seen == 0, sem, scope) == expected)
    else:
        budget = to_tensor(timeout_ns)
        static_assert(len(budget.shape) == 0 and budget.dtype.is_int(), "timeout_ns must be an integer")
        going = budget > 0
        while going & (_all_true(seen) == 0):
            seen = seen | (atomic_load(place, seen == 0, sem, scope) == expected)
            going = _now() - begin < budget.to(int64)
    return seen
