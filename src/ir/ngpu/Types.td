// The attribute and the types of the ngpu dialect.
#ifndef NEREID_NGPU_TYPES
#define NEREID_NGPU_TYPES

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def NGPU_Dialect : Dialect {
  let name = "ngpu";
  let cppNamespace = "::nereid::ngpu";
  let summary = "tile programs on a GPU: layouts, shared memory, asynchronous copies, matrix units";
  let description = [{
    The same blocks as in the tile dialect, with an idea of threads. A tensor that lives in registers carries its
    layout as its encoding, `tensor<128x64xf16, #ngpu.layout<...>>`, and the ops of tile, arith and math work on
    such tensors as before; what concerns threads and shared memory is here.

    One program is one block of threads (CTA) of `num_warps` warps of `num_lanes` threads, or the `num_blocks` blocks of a cluster,
    which have `num_warps` warps together: `num_warps` / `num_blocks` each, those of the first block first. All ops are executed by all
    warps of their region, converged.

    Attributes on the kernel (a `func.func` with `tile.kernel`): `ngpu.num_warps` (i32), `ngpu.num_blocks` (i32; 1 where it is missing), `ngpu.splits` (i32: the blocks of a
    cluster, at most so many and a power of two, run one program, as many as the launcher chooses; such a program has the warps of one block), `ngpu.pairs` (i32, 1: the launcher may start programs 2i and 2i + 1 of the first axis as
    the two blocks of a cluster),
    `ngpu.num_lanes` (i32; 32 where it is missing), `ngpu.sm` (i32: 80, 90, ... as the target numbers its machines), after allocation `ngpu.shared_bytes` (i32) and on every `ngpu.local_alloc` `offset` (bytes from the start of the
    block's dynamic shared memory). `ngpu.tensor_maps` (i32): how many tensor maps the launcher passes; `ngpu.optional_maps` (i32): a bit for each of the first 31 that it
    passes as zeros where it cannot make it. An op that needs scratch shared
    memory of its own (reductions and scans across warps, scalar atomics) carries `ngpu.scratch` (i32: its offset). A reduction with `ngpu.sends` sends its partial results between the blocks instead;
    `ngpu.send_bytes` (i32) of its kernel is the size of one of the two slots for them, behind two mbarriers at the start of shared memory. The verifier
    refuses other attributes of this dialect, other types, and other places.

    NVIDIA's own ops are marked by name: `wgmma`, `tma_*` (the copy engine), `mbarrier_*`.
  }];
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::nereid::tile::TileDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def NGPU_LinearLayout : AttrParameter<"::nereid::layout::LinearLayout", "the map"> {
  let cppAccessorType = "const ::nereid::layout::LinearLayout &";
}

def NGPU_LayoutAttr : AttrDef<NGPU_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "a linear layout: where the elements of a tensor live";
  let description = [{
    See src/layout/LinearLayout.h. As the encoding of a tensor: register, lane and warp bits to coordinates of the
    tensor's core (the power-of-two factor of each size; the odd factors repeat in registers, slowest). In a buffer type: offset bits.
  }];
  let parameters = (ins NGPU_LinearLayout:$layout);
  let hasCustomAssemblyFormat = 1;
}

class NGPU_Type<string name, string mnemonic_> : TypeDef<NGPU_Dialect, name> {
  let mnemonic = mnemonic_;
}

def NGPU_Buffer : NGPU_Type<"Buffer", "buffer"> {
  let summary = "a tensor in shared memory";
  let description = [{
    `!ngpu.buffer<3x128x64xf16, #ngpu.layout<...>>`: the layout (offset bits, in elements) covers the last dimensions;
    dimensions before those count whole copies, one after the other, each aligned to `slotBytes`. A buffer value is
    an address in shared memory.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::nereid::ngpu::LayoutAttr":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The shape that the layout covers, without the leading slots.
    llvm::ArrayRef<int64_t> getInnerShape() const;
    /// How many whole copies: the product of the leading dimensions.
    int64_t getSlots() const;
    /// Bytes of one copy, rounded up to its alignment where there are several.
    int64_t getSlotBytes() const;
    /// Bytes of the whole.
    int64_t getBytes() const;
    /// What the address must be a multiple of: 16, or the span of its swizzle (128 to 1024).
    int64_t getAlignment() const;
  }];
}

def NGPU_TensorMap : NGPU_Type<"TensorMap", "tensormap"> {
  let summary = "address of a CUtensorMap, 128 bytes that describe a tensor in global memory to the copy engine";
}

def NGPU_Channel : NGPU_Type<"Channel", "channel"> {
  let summary = "slots that one part of a warp_specialize fills and another empties, in turn";
  let parameters = (ins "int64_t":$slots);
  let assemblyFormat = "`<` $slots `>`";
  let genVerifyDecl = 1;
}

def NGPU_Hold : NGPU_Type<"Hold", "hold"> {
  let summary = "the right to read one filled slot of a channel, given back exactly once on every path";
}

def NGPU_AnyBuffer : Type<CPred<"::llvm::isa<::nereid::ngpu::BufferType>($_self)">, "shared-memory buffer",
                          "::nereid::ngpu::BufferType">;
def NGPU_MBarrier : Type<CPred<"::nereid::ngpu::isMBarrier($_self)">, "mbarrier (a buffer of one i64)">;
def NGPU_Map : Type<CPred<"::llvm::isa<::nereid::ngpu::TensorMapType>($_self)">, "tensor map">,
               BuildableType<"$_builder.getType<::nereid::ngpu::TensorMapType>()">;

#endif // NEREID_NGPU_TYPES
