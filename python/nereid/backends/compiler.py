"""Targets, and the code that all backends share."""

import abc
import dataclasses
import enum
import hashlib


@dataclasses.dataclass(frozen=True)
class GPUTarget:
    """What a kernel is compiled for: `GPUTarget("cuda", 90, 32)`; the CPU is `GPUTarget("cpu", "native", 0)`."""
    backend: str
    arch: int | str
    warp_size: int


class Language(enum.Enum):
    """Front ends."""
    TRITON = 0
    GLUON = 1


def target_of(text):
    """The target that a name of the library ("cpu", "cuda:90") stands for."""
    backend, _, arch = text.partition(":")
    if backend == "cpu":
        return GPUTarget("cpu", "native", 0)
    return GPUTarget(backend, int(arch) if arch else 0, 32)


def target_text(target):
    """The library's name of a target ("cpu", "cuda:90")."""
    return f"cuda:{target.arch}" if target.backend == "cuda" else target.backend


def options_hash(options):
    """A hash of all fields."""
    text = "_".join(f"{name}-{value}" for name, value in sorted(dataclasses.asdict(options).items()))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class LaunchOptions:
    """The keywords of a launch that every target takes."""
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    maxnreg: int | None = None
    ir_override: str | None = None
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple = ()
    deprecated_fp8_dot_operand_dtypes: tuple = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple | None = None
    debug: bool = False
    sanitize_overflow: bool = True
    instrumentation_mode: str = ""
    triton_version: str | None = None

    def __post_init__(self):
        libs = self.extern_libs
        if libs is not None and not isinstance(libs, tuple):
            object.__setattr__(self, "extern_libs", tuple(dict(libs).items()))
        assert self.num_warps > 0 and self.num_warps & (self.num_warps - 1) == 0, "num_warps must be a power of 2"

    def hash(self):
        return options_hash(self)


class BaseBackend(metaclass=abc.ABCMeta):
    """A backend for one target. The compiler behind it is in the library; this names its options and stages.

    Subclasses give `options_class` (a frozen dataclass with `hash()`), `binary_ext`, and the names of their stages.
    """

    supports_native_tensor_specialization = True
    stage_names: tuple[str, ...] = ()
    options_class: type = LaunchOptions

    def __init__(self, target):
        self.target = target

    @staticmethod
    @abc.abstractmethod
    def supports_target(target):
        """Whether it compiles for this target."""

    @abc.abstractmethod
    def hash(self):
        """Identifies the compiler and the target."""

    def parse_options(self, options):
        """The options of a launch, unknown ones left out."""
        return self.options_class(**self._known(options))

    def _known(self, options):
        known = {field.name for field in dataclasses.fields(self.options_class)}
        return {name: value for name, value in options.items() if name in known and value is not None}

    def pack_metadata(self, metadata):
        """The part of a kernel's metadata that a launcher needs."""
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def add_stages(self, stages, options, language=None):
        """Puts a function for each stage into a dict. They show which stages there are; `compile` runs all at once."""
        for name in self.stage_names:
            stages[name] = lambda src, metadata: src

    def load_dialects(self, context):
        """Nothing to do: dialects belong to a compilation."""

    def get_codegen_implementation(self, options):
        """Functions of the front end that depend on the target."""
        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1)}

    def get_module_map(self):
        """Modules that stand for others on this target."""
        from ..language.extra import libdevice
        return {"triton.language.extra.libdevice": libdevice}

    @staticmethod
    def parse_attr(desc):
        """The attributes that a fact about an argument ("D") stands for."""
        return [["tt.divisibility", 16]] if "D" in desc else []

    @staticmethod
    def get_int_specialization(arg, **kwargs):
        return "D" if kwargs.get("align") and arg % 16 == 0 else ""

    @staticmethod
    def get_tensor_specialization(arg, **kwargs):
        return "D" if kwargs.get("align") and arg.data_ptr() % 16 == 0 else ""
