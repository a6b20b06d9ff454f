// The operations of the tile dialect. See Types.td for the dialect's description.
#ifndef NEREID_TILE_OPS
#define NEREID_TILE_OPS

include "Types.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;
class Tile_PureOp<string mnemonic, list<Trait> traits = []> : Tile_Op<mnemonic, !listconcat([Pure], traits)>;

//===--- programs ---------------------------------------------------------------------------------------===//

def Tile_ProgramIdOp : Tile_PureOp<"program_id"> {
  let summary = "this program's index along one axis of the grid";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Tile_NumProgramsOp : Tile_PureOp<"num_programs"> {
  let summary = "the grid's extent along one axis";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict";
}

//===--- creation and shape -----------------------------------------------------------------------------===//

def Tile_RangeOp : Tile_PureOp<"range"> {
  let summary = "the integers start, start+1, ... end-1";
  let description = "The result is `tensor<(end-start) x i32>`.";
  let arguments = (ins I32Attr:$start, I32Attr:$end);
  let results = (outs Tile_TensorOf<[I32]>:$result);
  let assemblyFormat = "$start `to` $end attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_SplatOp : Tile_PureOp<"splat"> {
  let summary = "a tensor whose every element is the scalar";
  let arguments = (ins Tile_Scalar:$src);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_UnsplatOp : Tile_PureOp<"unsplat"> {
  let summary = "the only element of a tensor of one element";
  let arguments = (ins Tile_Tensor:$src);
  let results = (outs Tile_Scalar:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_BroadcastOp : Tile_PureOp<"broadcast", [Tile_View]> {
  let summary = "repeats along dimensions of size 1";
  let description = "Source and result have the same rank; sizes are equal or the source's is 1.";
  let arguments = (ins Tile_Tensor:$src);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_ExpandDimsOp : Tile_PureOp<"expand_dims", [Tile_View]> {
  let summary = "inserts a dimension of size 1";
  let arguments = (ins Tile_Tensor:$src, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src $axis attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_ReshapeOp : Tile_PureOp<"reshape", [Tile_View]> {
  let summary = "the same elements in row-major order under another shape";
  let description = "With `any_order` the compiler may permute the elements (`can_reorder=True`).";
  let arguments = (ins Tile_Tensor:$src, UnitAttr:$any_order);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src (`any_order` $any_order^)? attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_TransOp : Tile_PureOp<"trans", [Tile_View]> {
  let summary = "permutes dimensions";
  let description = "Dimension `i` of the result is dimension `order[i]` of the source.";
  let arguments = (ins Tile_Tensor:$src, DenseI32ArrayAttr:$order);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src $order attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_JoinOp : Tile_PureOp<"join", [SameTypeOperands]> {
  let summary = "two tensors side by side in a new last dimension of size 2";
  let description = "Two scalars give a tensor of shape [2].";
  let arguments = (ins Tile_Any:$lhs, Tile_Any:$rhs);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SplitOp : Tile_PureOp<"split"> {
  let summary = "the inverse of join: takes apart a last dimension of size 2";
  let arguments = (ins Tile_Tensor:$src);
  let results = (outs Tile_Any:$lhs, Tile_Any:$rhs);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($lhs) `,` type($rhs)";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_CatOp : Tile_PureOp<"cat"> {
  let summary = "concatenates two tensors along one dimension";
  let arguments = (ins Tile_Tensor:$lhs, Tile_Tensor:$rhs, ConfinedAttr<I32Attr, [IntNonNegative]>:$dim);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `along` $dim attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SliceOp : Tile_PureOp<"slice"> {
  let summary = "a box of a tensor";
  let description = [{
    `x[16:32, 3]`: from `offsets` on, as many elements of each dimension as the result has, `steps` apart (negative ones go
    backwards). The rank stays; use a reshape to remove dimensions of size 1.
  }];
  let arguments = (ins Tile_Tensor:$src, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$steps);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src $offsets `step` $steps attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_ExchangeOp : Tile_PureOp<"exchange", [SameOperandsAndResultType]> {
  let summary = "each element's partner: result[i] = src[i xor mask] along one axis";
  let description = [{
    The axis has a power-of-two size, larger than `mask`. The step of a sorting network (one bit), and the reversal of an
    axis (all bits).
  }];
  let arguments = (ins Tile_Tensor:$src, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis,
                       ConfinedAttr<I32Attr, [IntNonNegative]>:$mask);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src `axis` $axis `mask` $mask attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_GatherOp : Tile_PureOp<"gather"> {
  let summary = "picks elements along one axis: result[.., i, ..] = src[.., indices[.., i, ..], ..]";
  let description = [{
    Source and indices have the same rank and, but for the axis, the same sizes; the result has the shape of the indices.
    An index outside the axis gives an undefined value, and touches nothing else.
  }];
  let arguments = (ins Tile_Tensor:$src, Tile_IntTensor:$indices, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src `[` $indices `]` `axis` $axis attr-dict `:` type($src) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_HistogramOp : Tile_PureOp<"histogram"> {
  let summary = "how often each of the numbers 0 .. n-1 occurs";
  let description = [{
    A vector of integers, counted where the mask holds; numbers outside 0 .. n-1 (read as unsigned) are not counted. The
    result is `tensor<n x i32>`.
  }];
  let arguments = (ins Tile_IntTensor:$src, Optional<Tile_BoolLike>:$mask);
  let results = (outs Tile_TensorOf<[I32]>:$result);
  let assemblyFormat = "$src (`mask` $mask^)? attr-dict `:` type($src) (`,` type($mask)^)? `->` type($result)";
  let hasVerifier = 1;
}

//===--- pointers and conversions -----------------------------------------------------------------------===//

def Tile_AddPtrOp : Tile_PureOp<"addptr", [Elementwise, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "moves pointers by a number of elements";
  let description = [{
    The offset is signed, counts elements of the pointee (an `i1` counts as one byte), and has the pointer's
    shape. It is sign-extended to 64 bits: the front end widens unsigned offsets itself.
  }];
  let arguments = (ins Tile_PtrLike:$ptr, Tile_IntLike:$offset);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($ptr) `,` type($offset)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_IntToPtrOp : Tile_PureOp<"int_to_ptr", [Elementwise]> {
  let summary = "an address from a 64-bit integer";
  let arguments = (ins Tile_IntLike:$src);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PtrToIntOp : Tile_PureOp<"ptr_to_int", [Elementwise]> {
  let summary = "the 64-bit address of a pointer";
  let arguments = (ins Tile_PtrLike:$src);
  let results = (outs Tile_IntLike:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PtrCastOp : Tile_PureOp<"ptr_cast", [Elementwise]> {
  let summary = "the same address with another pointee type";
  let arguments = (ins Tile_PtrLike:$src);
  let results = (outs Tile_PtrLike:$result);
  let assemblyFormat = "$src attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_FpCastOp : Tile_PureOp<"fp_cast", [Elementwise]> {
  let summary = "converts between floating types where arith does not say enough";
  let description = [{
    Any conversion from or to an 8-bit float, and narrowing with rounding towards zero. To an 8-bit float:
    infinities and overflow give the largest finite value of the sign, NaN stays NaN, subnormals are rounded
    correctly. Conversions among f16, bf16, f32 and f64 with the default rounding are `arith.extf/truncf`.
  }];
  let arguments = (ins Tile_FloatLike:$src, DefaultValuedAttr<Tile_Rounding, "Rounding::RTNE">:$rounding);
  let results = (outs Tile_FloatLike:$result);
  let assemblyFormat = "$src (`rounding` $rounding^)? attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===--- memory -----------------------------------------------------------------------------------------===//

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments,
                                   DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads through a pointer or a tensor of pointers";
  let description = [{
    Lanes whose mask is false touch no memory and give `other`, or zero without it. `is_volatile` loads
    are never merged, moved or removed.
  }];
  let arguments = (ins Tile_PtrLike:$ptr, Optional<Tile_BoolLike>:$mask, Optional<Tile_Any>:$other,
                       DefaultValuedAttr<Tile_CacheModifier, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionPolicy, "EvictionPolicy::Normal">:$evict,
                       UnitAttr:$is_volatile);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`other` $other^)? (`cache` $cache^)? (`evict` $evict^)? (`volatile` $is_volatile^)?
    attr-dict `:` type($ptr) (`,` `mask` type($mask)^)? (`,` `other` type($other)^)? `->` type($result)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes through a pointer or a tensor of pointers";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_Any:$value, Optional<Tile_BoolLike>:$mask,
                       DefaultValuedAttr<Tile_CacheModifier, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionPolicy, "EvictionPolicy::Normal">:$evict);
  let assemblyFormat = [{
    $ptr `,` $value (`mask` $mask^)? (`cache` $cache^)? (`evict` $evict^)?
    attr-dict `:` type($ptr) `,` type($value) (`,` `mask` type($mask)^)?
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_Atomic : OpInterface<"Atomic"> {
  let cppNamespace = "::nereid::tile";
  let description = [{
    An access to memory that other threads see as a whole, and that orders the program's other accesses. It has both
    effects on memory, also where it only reads: nothing passes it, and it is neither merged nor removed.
  }];
  let methods = [
    InterfaceMethod<"The pointer or tensor of pointers.", "::mlir::Value", "getPtr">,
    InterfaceMethod<"Lanes where it is false touch no memory; null: all take part.", "::mlir::Value", "getMask">,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getMaskMutable">,
    InterfaceMethod<"How other accesses are ordered.", "::nereid::tile::MemSemantic", "getSem">,
    InterfaceMethod<"Among which threads.", "::nereid::tile::MemScope", "getScope">,
    InterfaceMethod<"The only result, null where there is none.", "::mlir::Value", "getSeen", (ins), [{
      return $_op->getNumResults() ? ::mlir::Value($_op->getResult(0)) : ::mlir::Value();
    }]>,
    InterfaceMethod<"Whether memory may change.", "bool", "changesMemory", (ins), [{}], [{ return true; }]>,
  ];
}

class Tile_AtomicOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, !listconcat([Tile_Atomic, MemoryEffects<[MemRead, MemWrite]>], traits)>;

def Tile_AtomicLoadOp : Tile_AtomicOp<"atomic_load", [DeclareOpInterfaceMethods<Tile_Atomic, ["changesMemory"]>]> {
  let summary = "reads every element as a whole";
  let description = [{
    Lanes masked off touch no memory and give an undefined value. The memory may be read-only. `sem`: `acquire` or `relaxed`.
  }];
  let arguments = (ins Tile_PtrLike:$ptr, Optional<Tile_BoolLike>:$mask,
                       DefaultValuedAttr<Tile_MemSemantic, "MemSemantic::Acquire">:$sem,
                       DefaultValuedAttr<Tile_MemScope, "MemScope::GPU">:$scope);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`sem` $sem^)? (`scope` $scope^)?
    attr-dict `:` type($ptr) (`,` `mask` type($mask)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AtomicStoreOp : Tile_AtomicOp<"atomic_store"> {
  let summary = "writes every element as a whole";
  let description = "Lanes masked off touch no memory. `sem`: `release` or `relaxed`.";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_Any:$value, Optional<Tile_BoolLike>:$mask,
                       DefaultValuedAttr<Tile_MemSemantic, "MemSemantic::Release">:$sem,
                       DefaultValuedAttr<Tile_MemScope, "MemScope::GPU">:$scope);
  let assemblyFormat = [{
    $ptr `,` $value (`mask` $mask^)? (`sem` $sem^)? (`scope` $scope^)?
    attr-dict `:` type($ptr) `,` type($value) (`,` `mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Tile_AtomicRMWOp : Tile_AtomicOp<"atomic_rmw", [AllTypesMatch<["value", "result"]>]> {
  let summary = "reads, modifies and writes back atomically; gives the old values";
  let description = [{
    Lanes masked off touch no memory and give an undefined value. Several lanes may name one address. `fmax` and
    `fmin` order -0.0 below +0.0.
  }];
  let arguments = (ins Tile_AtomicKind:$kind, Tile_PtrLike:$ptr, Tile_Any:$value, Optional<Tile_BoolLike>:$mask,
                       DefaultValuedAttr<Tile_MemSemantic, "MemSemantic::AcqRel">:$sem,
                       DefaultValuedAttr<Tile_MemScope, "MemScope::GPU">:$scope);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $kind $ptr `,` $value (`mask` $mask^)? (`sem` $sem^)? (`scope` $scope^)?
    attr-dict `:` type($ptr) `,` type($value) (`,` `mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Tile_AtomicCASOp : Tile_AtomicOp<"atomic_cas", [AllTypesMatch<["cmp", "value", "result"]>]> {
  let summary = "compares and, where equal, replaces atomically; gives the old values";
  let description = "Lanes masked off touch no memory and give an undefined value.";
  let arguments = (ins Tile_PtrLike:$ptr, Tile_Any:$cmp, Tile_Any:$value, Optional<Tile_BoolLike>:$mask,
                       DefaultValuedAttr<Tile_MemSemantic, "MemSemantic::AcqRel">:$sem,
                       DefaultValuedAttr<Tile_MemScope, "MemScope::GPU">:$scope);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $ptr `,` $cmp `,` $value (`mask` $mask^)? (`sem` $sem^)? (`scope` $scope^)?
    attr-dict `:` type($ptr) `,` type($value) (`,` `mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "orders all memory accesses of the program before and after it";
  let assemblyFormat = "attr-dict";
}

//===--- tensor descriptors -----------------------------------------------------------------------------===//
// A target without a copy engine has them rewritten as pointers: `descriptors-to-pointers`.

def Tile_MakeDescriptorOp : Tile_PureOp<"make_descriptor", [AttrSizedOperandSegments]> {
  let summary = "describes a tensor in global memory";
  let description = [{
    The address of its first element, its sizes (not negative), and how many elements two neighbours of each
    dimension lie apart; the last stride is 1, so it is not given. With `copy_engine` (set by `choose-tensor-copies`) a target's copy engine
    serves it: the address and all strides in bytes are multiples of 16, and a launcher can compute the operands. `number` is then its
    place among the maps that the launcher passes (set by the pass that plans them). `optional` (set by
    `pointers-to-descriptors`, always with `copy_engine`): nothing is known of alignment and sizes, accesses are executed only where
    `tile.desc_mapped` is true.
  }];
  let arguments = (ins Tile_PtrElt:$base, Variadic<I32>:$shape, Variadic<I64>:$strides, UnitAttr:$copy_engine,
                       UnitAttr:$optional, OptionalAttr<ConfinedAttr<I32Attr, [IntNonNegative]>>:$number);
  let results = (outs Tile_AnyDesc:$result);
  let assemblyFormat = [{
    $base `[` $shape `]` `strides` `[` $strides `]` (`copy_engine` $copy_engine^)? (`optional` $optional^)?
    (`number` $number^)? attr-dict `:` type($base) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DescMappedOp : Tile_PureOp<"desc_mapped"> {
  let summary = "whether the copy engine can serve an optional descriptor in this launch";
  let description = [{
    True when the address and all strides in bytes are multiples of 16, and sizes and strides are positive and within the
    engine's limits: the launcher then makes the tensor map. False on targets that make no maps.
  }];
  let arguments = (ins Tile_AnyDesc:$desc);
  let results = (outs I1:$result);
  let assemblyFormat = "$desc attr-dict `:` type($desc)";
}

def Tile_DescShapeOp : Tile_PureOp<"desc_shape"> {
  let summary = "the size of a described tensor along one dimension";
  let arguments = (ins Tile_AnyDesc:$desc, ConfinedAttr<I32Attr, [IntNonNegative]>:$dim);
  let results = (outs I32:$result);
  let assemblyFormat = "$desc $dim attr-dict `:` type($desc)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_DescStrideOp : Tile_PureOp<"desc_stride"> {
  let summary = "a stride of a described tensor, in elements";
  let arguments = (ins Tile_AnyDesc:$desc, ConfinedAttr<I32Attr, [IntNonNegative]>:$dim);
  let results = (outs I64:$result);
  let assemblyFormat = "$desc $dim attr-dict `:` type($desc)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_DescLoadOp : Tile_Op<"desc_load", [MemoryEffects<[MemRead]>]> {
  let summary = "reads the block that begins at these coordinates";
  let description = [{
    Coordinates are signed. Elements outside the tensor touch no memory and give the descriptor's padding. The result
    has the block's shape, or that shape without some of its dimensions of size 1.
  }];
  let arguments = (ins Tile_AnyDesc:$desc, Variadic<I32>:$coords,
                       DefaultValuedAttr<Tile_CacheModifier, "CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionPolicy, "EvictionPolicy::Normal">:$evict);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $desc `[` $coords `]` (`cache` $cache^)? (`evict` $evict^)? attr-dict `:` type($desc) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_DescStoreOp : Tile_Op<"desc_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes the block that begins at these coordinates";
  let description = "Elements outside the tensor are dropped. The value's shape: see `tile.desc_load`.";
  let arguments = (ins Tile_AnyDesc:$desc, Variadic<I32>:$coords, Tile_Tensor:$value);
  let assemblyFormat = "$desc `[` $coords `]` `,` $value attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_DescReduceOp : Tile_Op<"desc_reduce", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "combines a block with memory, atomically element by element";
  let description = [{
    Relaxed, at the scope of the device. Elements outside the tensor are dropped. Not `xchg`; floats: `fadd`, and
    `fmax` and `fmin` of 16 bits.
  }];
  let arguments = (ins Tile_AtomicKind:$kind, Tile_AnyDesc:$desc, Variadic<I32>:$coords, Tile_Tensor:$value);
  let assemblyFormat = "$kind $desc `[` $coords `]` `,` $value attr-dict `:` type($desc) `,` type($value)";
  let hasVerifier = 1;
}

def Tile_DescGatherOp : Tile_Op<"desc_gather", [MemoryEffects<[MemRead]>]> {
  let summary = "reads pieces of several rows of a matrix";
  let description = [{
    The descriptor has blocks of 1 x N. Row `i` of the result is the block at row `rows[i]` and column `column`;
    what lies outside the tensor, rows or columns, gives the padding.
  }];
  let arguments = (ins Tile_AnyDesc:$desc, Tile_TensorOf<[I32]>:$rows, I32:$column);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$desc `[` $rows `,` $column `]` attr-dict `:` type($desc) `,` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DescScatterOp : Tile_Op<"desc_scatter", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes pieces of several rows of a matrix";
  let description = "As `tile.desc_gather`. Elements outside of the tensor are dropped; of equal rows one is written.";
  let arguments = (ins Tile_AnyDesc:$desc, Tile_TensorOf<[I32]>:$rows, I32:$column, Tile_Tensor:$value);
  let assemblyFormat = "$desc `[` $rows `,` $column `]` `,` $value attr-dict `:` type($desc) `,` type($rows) `,` type($value)";
  let hasVerifier = 1;
}

//===--- arithmetic that arith and math lack ------------------------------------------------------------===//

def Tile_DivRNOp : Tile_PureOp<"div_rn", [Elementwise, SameOperandsAndResultType]> {
  let summary = "IEEE division, correctly rounded on every target";
  let description = "`arith.divf` leaves a target free to approximate within 2 ulp.";
  let arguments = (ins Tile_FloatLike:$lhs, Tile_FloatLike:$rhs);
  let results = (outs Tile_FloatLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Tile_SqrtRNOp : Tile_PureOp<"sqrt_rn", [Elementwise, SameOperandsAndResultType]> {
  let summary = "IEEE square root, correctly rounded on every target";
  let arguments = (ins Tile_FloatLike:$src);
  let results = (outs Tile_FloatLike:$result);
  let assemblyFormat = "$src attr-dict `:` type($result)";
}

def Tile_MulHiUOp : Tile_PureOp<"mulhi_u", [Elementwise, SameOperandsAndResultType]> {
  let summary = "the upper half of the double-width unsigned product";
  let arguments = (ins Tile_IntLike:$lhs, Tile_IntLike:$rhs);
  let results = (outs Tile_IntLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Tile_InlineAsmOp : Tile_Op<"inline_asm", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the target's assembly on every element";
  let description = [{
    `assembly` and `constraints` are written as LLVM wants them. Operands and results are tensors of one shape, or all scalars.
    One instance works on `pack` elements: its registers hold `pack` values of each operand in turn, values narrower than 32
    bits packed into 32-bit registers. `pure` instances may be removed, merged and moved. `target` is the assembly's kind:
    "nvptx" or "x86".
  }];
  let arguments = (ins StrAttr:$assembly, StrAttr:$constraints, StrAttr:$target, Variadic<Tile_Any>:$args,
                       ConfinedAttr<I32Attr, [IntPositive]>:$pack, UnitAttr:$pure);
  let results = (outs Variadic<Tile_Any>:$result);
  let assemblyFormat = [{
    $assembly `constraints` $constraints `target` $target `pack` $pack (`pure` $pure^)? `(` $args `)` attr-dict
    `:` functional-type($args, $result)
  }];
  let hasVerifier = 1;
}

def Tile_MapElementwiseOp : Tile_Op<"map_elementwise", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "runs a region on scalars for every element";
  let description = [{
    Operands and results are tensors of one shape (of `pack` times as many elements as the region is run). The region takes
    `pack` elements of the first operand, then those at the same places of the second, ..., and yields the results' likewise.
    Which elements meet in a run is the target's choice: neighbours in row-major order on the CPU, registers of a thread on
    GPUs. Control flow inside concerns one run of the region only.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$srcs, ConfinedAttr<I32Attr, [IntPositive]>:$pack);
  let results = (outs Variadic<Tile_Tensor>:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $srcs `)` `pack` $pack $body attr-dict `:` functional-type($srcs, $result)";
  let hasVerifier = 1;
}

def Tile_ExternOp : Tile_Op<"extern_elementwise", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "calls a scalar function of a device library on every element";
  let description = "Operands and result have one shape; `pure` calls may be removed and repeated. `path`: the author's own file of LLVM bitcode.";
  let arguments = (ins Variadic<Tile_Any>:$args, StrAttr:$symbol, StrAttr:$library, UnitAttr:$pure,
                       OptionalAttr<StrAttr>:$path);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $symbol `from` $library `(` $args `)` (`pure` $pure^)? (`path` $path^)? attr-dict `:` functional-type($args, $result)
  }];
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_PureOp<"dot", [AllTypesMatch<["c", "result"]>]> {
  let summary = "matrix product plus accumulator: a[.., M, K] x b[.., K, N] + c[.., M, N]";
  let description = [{
    Leading dimensions are batches. The accumulator's element type is the result's: f32 for 8- and 16-bit
    and f32 operands (f16 when asked for), f64 for f64, i32 for i8. `precision` concerns f32 operands.
  }];
  let arguments = (ins Tile_Tensor:$a, Tile_Tensor:$b, Tile_Tensor:$c,
                       DefaultValuedAttr<Tile_InputPrecision, "InputPrecision::TF32">:$precision,
                       DefaultValuedAttr<I32Attr, "0">:$max_imprecise_acc);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $c (`precision` $precision^)? (`max_imprecise_acc` $max_imprecise_acc^)?
    attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===--- reductions and scans ---------------------------------------------------------------------------===//

def Tile_ReduceOp : Tile_Op<"reduce", [SingleBlock, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "combines all elements along one axis";
  let description = [{
    `n` tensors of one shape. The region takes `2n` scalars (n of the left, then n of the right part), and
    yields n. The combination is associative; neighbouring parts are combined in order, in any grouping, so it need
    not commute. A result lacks the axis, and is a scalar when that was the only one. With `any_order` elements may
    be combined in any order: the combination gives the same whichever comes first.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$srcs, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis,
                       UnitAttr:$any_order);
  let results = (outs Variadic<Tile_Any>:$result);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = [{
    `(` $srcs `)` `axis` $axis (`any_order` $any_order^)? $combine attr-dict `:` functional-type($srcs, $result)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [SingleBlock, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "inclusive prefix combination along one axis";
  let description = [{
    As `tile.reduce`, keeping every partial result. `reverse` scans from the end: element i combines
    elements last..i, with the later elements on the left.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$srcs, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis,
                       UnitAttr:$reverse);
  let results = (outs Variadic<Tile_Tensor>:$result);
  let regions = (region SizedRegion<1>:$combine);
  let assemblyFormat = [{
    `(` $srcs `)` `axis` $axis (`reverse` $reverse^)? $combine attr-dict `:` functional-type($srcs, $result)
  }];
  let hasVerifier = 1;
}

def Tile_YieldOp : Tile_PureOp<"yield", [Terminator, ReturnLike, ParentOneOf<["ReduceOp", "ScanOp", "MapElementwiseOp"]>]> {
  let summary = "the result of a combiner, or of one run of a map";
  let arguments = (ins Variadic<Tile_Scalar>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

//===--- hints and debugging ----------------------------------------------------------------------------===//

def Tile_HintOp : Tile_PureOp<"hint", [Tile_SameElements, AllTypesMatch<["src", "result"]>]> {
  let summary = "its operand, about which the author promises something";
  let description = "One number per dimension (one for a scalar), as `tl.multiple_of` and its kin take them.";
  let arguments = (ins Tile_Any:$src, OptionalAttr<DenseI64ArrayAttr>:$divisibility,
                       OptionalAttr<DenseI64ArrayAttr>:$contiguity, OptionalAttr<DenseI64ArrayAttr>:$constancy);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    $src (`divisibility` $divisibility^)? (`contiguity` $contiguity^)? (`constancy` $constancy^)? attr-dict `:` type($src)
  }];
  let hasVerifier = 1;
}

def Tile_AssumeOp : Tile_Op<"assume", [MemoryEffects<[MemWrite]>]> {
  let summary = "promises that a scalar condition holds";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
  let hasCanonicalizer = 1;
}

def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "stops the launch with a message when a condition is false anywhere";
  let arguments = (ins Tile_BoolLike:$condition, StrAttr:$message, Optional<Tile_BoolLike>:$mask);
  let assemblyFormat = "$condition `,` $message (`mask` $mask^)? attr-dict `:` type($condition) (`,` type($mask)^)?";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_CheckOp : Tile_Op<"check", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "stops the launch when a condition about a memory access is false anywhere";
  let description = [{
    Made by `check-accesses`. Reports the first lane that fails: what went wrong (`bounds`, `overflow`), the number
    of the kernel's argument concerned (-1: none), and `detail` of that lane, the byte offset from the start of the
    argument (or the address).
  }];
  let arguments = (ins Tile_CheckKind:$kind, Tile_BoolLike:$condition, Optional<Tile_IntLike>:$detail,
                       Optional<Tile_BoolLike>:$mask, I32Attr:$argument);
  let assemblyFormat = [{
    $kind $condition (`detail` $detail^)? (`mask` $mask^)? `argument` $argument
    attr-dict `:` type($condition) (`,` `detail` type($detail)^)? (`,` `mask` type($mask)^)?
  }];
}

def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "prints scalars and tensors from the running kernel";
  let description = "`shapes`: of each argument, without the padding that a target has added; elements outside of it are not printed.";
  let arguments = (ins StrAttr:$prefix, BoolAttr:$hex, DenseBoolArrayAttr:$is_signed, Variadic<Tile_Any>:$args,
                       OptionalAttr<TypedArrayAttrBase<DenseI64ArrayAttr, "shapes">>:$shapes);
  let assemblyFormat = "$prefix `hex` $hex `signed` $is_signed (`:` $args^ `:` type($args))? (`shapes` $shapes^)? attr-dict";
  let hasVerifier = 1;
}

#endif // NEREID_TILE_OPS
