"""`tl.PropagateNan`. Its `__module__` is that of `core`."""


class PropagateNan:
    """What `maximum` and `minimum` do with NaN: `NONE` gives the other operand, `ALL` NaN. (No `enum`: that takes long to load.)"""

    __module__ = f"{__package__}.core"
    __nereid_number__ = True  # kernels know its members as numbers
    __members__ = {}

    def __new__(cls, value):
        for member in cls.__members__.values():
            if member.value == value:
                return member
        raise ValueError(f"{value!r} is not a valid PropagateNan")

    def __int__(self):
        return self.value

    def __repr__(self):
        return f"<PropagateNan.{self.name}: {self.value}>"

    def __str__(self):
        return f"PropagateNan.{self.name}"

    def __reduce__(self):
        return PropagateNan, (self.value, )


for _name, _value in (("NONE", 0), ("ALL", 0xFFFF)):
    _member = PropagateNan.__members__[_name] = object.__new__(PropagateNan)
    _member.name, _member.value = _name, _value
    setattr(PropagateNan, _name, _member)

del _name, _member
