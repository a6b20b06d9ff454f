// The types and enumerations of the tile dialect.
#ifndef NEREID_TILE_TYPES
#define NEREID_TILE_TYPES

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

// See Dialect.h.
class Tile_OpTrait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::nereid::tile";
}
def Tile_View : Tile_OpTrait<"View">;
def Tile_SameElements : Tile_OpTrait<"SameElements">;

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::nereid::tile";
  let summary = "programs on blocks of data, without any idea of threads";
  let description = [{
    A kernel is one `func.func` with the unit attribute `tile.kernel`; it describes what ONE program of the
    launch grid does. Its values are scalars, pointers (`!tile.ptr<T>`), and tensors of both with a static shape
    (`tensor<16x32xf32>`, `tensor<64x!tile.ptr<f16>>`). A dimension need not be a power of two. Rank-0 tensors do
    not occur: a scalar is a scalar.

    Integers are signless: the front end chooses the signed or unsigned op. Elementwise arithmetic, comparison,
    selection, and conversion between standard types are `arith` and `math` ops, on scalars and tensors alike;
    control flow is `scf`, structured to the end. All other operations are in this dialect.

    Attributes on kernel arguments: `tile.name` (string: its name in the source), `tile.divisibility` (i64:
    the value, or the address, is a multiple). On the kernel itself: `tile.max_programs` (three i64: the launcher
    promises grids of at most this extent per axis). Attributes on `scf.for`: `tile.num_stages`, `tile.unroll`,
    `tile.flatten`, `tile.disallow_acc_multi_buffer`, `tile.warp_specialize`, `tile.disable_licm`,
    `tile.without_copies` (a loop that has another version, see `pointers-to-descriptors`).
  }];
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

class Tile_Type<string name, string mnemonic_> : TypeDef<Tile_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Tile_Ptr : Tile_Type<"Ptr", "ptr"> {
  let summary = "pointer to a scalar in global memory";
  let description = [{
    `!tile.ptr<f32>`, or `!tile.ptr<f32, 3>` with an address space other than 1 (global). May be the element
    type of a tensor. An `i1` pointee occupies one byte; the front end reads and writes it through an `i8`
    pointer.
  }];
  let parameters = (ins "::mlir::Type":$pointee, DefaultValuedParameter<"unsigned", "1">:$addressSpace);
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
    return $_get(pointee.getContext(), pointee, 1u);
  }]>];
  let assemblyFormat = "`<` $pointee (`,` $addressSpace^)? `>`";
}

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::nereid::tile";
}

def Tile_CacheModifier : Tile_Enum<"CacheModifier", "cache hint of a load or store", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"CA", 1, "ca">, I32EnumAttrCase<"CG", 2, "cg">,
  I32EnumAttrCase<"WB", 3, "wb">, I32EnumAttrCase<"CS", 4, "cs">, I32EnumAttrCase<"WT", 5, "wt">,
  I32EnumAttrCase<"CV", 6, "cv">]>;
def Tile_EvictionPolicy : Tile_Enum<"EvictionPolicy", "eviction hint of a load or store", [
  I32EnumAttrCase<"Normal", 0, "normal">, I32EnumAttrCase<"EvictFirst", 1, "evict_first">,
  I32EnumAttrCase<"EvictLast", 2, "evict_last">]>;
def Tile_AtomicKind : Tile_Enum<"AtomicKind", "what an atomic does to the memory", [
  I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"FAdd", 1, "fadd">, I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"UMax", 4, "umax">, I32EnumAttrCase<"UMin", 5, "umin">,
  I32EnumAttrCase<"And", 6, "and">, I32EnumAttrCase<"Or", 7, "or">, I32EnumAttrCase<"Xor", 8, "xor">,
  I32EnumAttrCase<"Xchg", 9, "xchg">, I32EnumAttrCase<"FMax", 10, "fmax">, I32EnumAttrCase<"FMin", 11, "fmin">]>;
def Tile_MemSemantic : Tile_Enum<"MemSemantic", "ordering of an atomic", [
  I32EnumAttrCase<"Relaxed", 0, "relaxed">, I32EnumAttrCase<"Acquire", 1, "acquire">,
  I32EnumAttrCase<"Release", 2, "release">, I32EnumAttrCase<"AcqRel", 3, "acq_rel">]>;
def Tile_MemScope : Tile_Enum<"MemScope", "threads among which an atomic is atomic", [
  I32EnumAttrCase<"GPU", 0, "gpu">, I32EnumAttrCase<"CTA", 1, "cta">, I32EnumAttrCase<"System", 2, "sys">]>;
def Tile_InputPrecision : Tile_Enum<"InputPrecision", "how a dot treats fp32 operands", [
  I32EnumAttrCase<"TF32", 0, "tf32">, I32EnumAttrCase<"TF32x3", 1, "tf32x3">, I32EnumAttrCase<"IEEE", 2, "ieee">,
  I32EnumAttrCase<"BF16x3", 3, "bf16x3">, I32EnumAttrCase<"BF16x6", 4, "bf16x6">]>;
def Tile_Rounding : Tile_Enum<"Rounding", "rounding of a narrowing float conversion", [
  I32EnumAttrCase<"RTNE", 0, "rtne">, I32EnumAttrCase<"RTZ", 1, "rtz">]>;

def Tile_Padding : Tile_Enum<"Padding", "what a descriptor's load gives outside the tensor", [
  I32EnumAttrCase<"Zero", 0, "zero">, I32EnumAttrCase<"NaN", 1, "nan">]>;

def Tile_CheckKind : Tile_Enum<"CheckKind", "what a check of a memory access is about", [
  I32EnumAttrCase<"Bounds", 0, "bounds">, I32EnumAttrCase<"Overflow", 1, "overflow">]>;

def Tile_Desc : Tile_Type<"Desc", "desc"> {
  let summary = "a tensor in global memory, seen in blocks of one size";
  let description = [{
    `!tile.desc<16x64xf16>`: where a tensor of f16 begins, how large it is and how far its rows lie apart, for
    accesses to blocks of 16 x 64 elements. `!tile.desc<16x64xf16, nan>`: what is read outside the tensor is NaN, not
    zero. Rank 1 to 5; elements of one to eight bytes. The elements of the last dimension are adjacent. Descriptors are values like others: they go round
    loops and through branches and calls.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::nereid::tile::Padding":$padding);
  let builders = [TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                                                      CArg<"::nereid::tile::Padding", "::nereid::tile::Padding::Zero">:$padding), [{
    return $_get(elementType.getContext(), shape, elementType, padding);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getRank() const { return getShape().size(); }
    /// The block as a tensor.
    ::mlir::RankedTensorType getBlockType() const;
  }];
}

def Tile_PtrElt : Type<CPred<"::llvm::isa<::nereid::tile::PtrType>($_self)">, "pointer">;
def Tile_AnyDesc : Type<CPred<"::llvm::isa<::nereid::tile::DescType>($_self)">, "tensor descriptor">;
def Tile_Float : AnyTypeOf<[F16, BF16, F32, F64, F8E4M3FN, F8E5M2], "float">;
def Tile_Int : AnyTypeOf<[I1, I8, I16, I32, I64], "integer">;
def Tile_Scalar : AnyTypeOf<[Tile_Float, Tile_Int, Tile_PtrElt], "float, integer or pointer">;

// A tensor has at least one dimension, and every size is known and positive.
def Tile_ShapePred : CPred<"::nereid::tile::isTileShape(::llvm::cast<::mlir::ShapedType>($_self).getShape())">;
class Tile_TensorOf<list<Type> elements> : RankedTensorOf<elements, [Tile_ShapePred], "tile tensor">;
def Tile_Tensor : Tile_TensorOf<[Tile_Float, Tile_Int, Tile_PtrElt]>;
def Tile_FloatTensor : Tile_TensorOf<[Tile_Float]>;
def Tile_IntTensor : Tile_TensorOf<[Tile_Int]>;
def Tile_Any : AnyTypeOf<[Tile_Scalar, Tile_Tensor]>;
def Tile_PtrLike : AnyTypeOf<[Tile_PtrElt, Tile_TensorOf<[Tile_PtrElt]>]>;
def Tile_BoolLike : AnyTypeOf<[I1, Tile_TensorOf<[I1]>]>;
def Tile_IntLike : AnyTypeOf<[Tile_Int, Tile_IntTensor]>;
def Tile_FloatLike : AnyTypeOf<[Tile_Float, Tile_FloatTensor]>;

#endif // NEREID_TILE_TYPES
