// The operations of the ngpu dialect. See Types.td for the dialect's description.
#ifndef NEREID_NGPU_OPS
#define NEREID_NGPU_OPS

include "Types.td"
include "../tile/Types.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Accesses to shared memory and to the state of asynchronous copies, told apart from global memory.
def NGPU_SharedMemory : Resource<"::nereid::ngpu::SharedMemory">;
def NGPU_AsyncCopies : Resource<"::nereid::ngpu::AsyncCopies">;

class NGPU_Op<string mnemonic, list<Trait> traits = []> : Op<NGPU_Dialect, mnemonic, traits>;

//===--- layouts ----------------------------------------------------------------------------------------===//

def NGPU_ConvertLayoutOp : NGPU_Op<"convert_layout", [Pure, Tile_SameElements]> {
  let summary = "the same tensor in another layout";
  let description = [{
    `pieces`: it goes through shared memory in so many parts, one after the other. `within_warps`: elements move between the lanes of a warp, by
    shuffles, and not through shared memory, so no warp waits for another one.
  }];
  let arguments = (ins Tile_Tensor:$src, OptionalAttr<ConfinedAttr<I32Attr, [IntPositive]>>:$pieces, UnitAttr:$within_warps);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src (`pieces` $pieces^)? (`within_warps` $within_warps^)? attr-dict `:` type($src) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NGPU_RenewOp : NGPU_Op<"renew", [Pure, Elementwise, SameOperandsAndResultType]> {
  let summary = "the same values, of which nothing that was computed before is known";
  let description = [{
    What is computed of the result is computed again: neither LLVM nor an assembler finds that it is what was computed of `src`. Numbers
    tell ops apart that renew the same values at different points of the program.
  }];
  let arguments = (ins Tile_Tensor:$src, I32Attr:$number);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$src `number` $number attr-dict `:` type($result)";
}

//===--- shared memory ----------------------------------------------------------------------------------===//

def NGPU_LocalAllocOp : NGPU_Op<"local_alloc", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a buffer in shared memory, filled from a tensor or uninitialised";
  let description = [{
    `offset` is set by allocation: bytes from the start of dynamic shared memory. `all_blocks`, of a program that several
    blocks run: every block writes its elements of `src` to the buffers of all of them.
  }];
  let arguments = (ins Optional<Tile_Tensor>:$src, OptionalAttr<I32Attr>:$offset, UnitAttr:$all_blocks);
  let results = (outs NGPU_AnyBuffer:$result);
  let assemblyFormat = "($src^ `:` type($src) `->`)? type($result) attr-dict";
  let hasVerifier = 1;
}

def NGPU_LocalDeallocOp : NGPU_Op<"local_dealloc"> {
  let summary = "ends the life of a buffer explicitly (otherwise: after its last use)";
  let arguments = (ins Arg<NGPU_AnyBuffer, "", [MemFree<NGPU_SharedMemory>]>:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def NGPU_SlotOp : NGPU_Op<"slot", [Pure]> {
  let summary = "one of a buffer's copies: the first dimension is dropped";
  let arguments = (ins NGPU_AnyBuffer:$buffer, I32:$index);
  let results = (outs NGPU_AnyBuffer:$result);
  let assemblyFormat = "$buffer `[` $index `]` attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_SubviewOp : NGPU_Op<"subview", [Pure]> {
  let summary = "a part of a buffer at a constant position";
  let description = [{
    The offsets are multiples of the result's sizes, and the position's offset bits are disjoint from those of the
    part: the address is the buffer's plus a constant. The layout of the result is the buffer's, restricted.
  }];
  let arguments = (ins NGPU_AnyBuffer:$buffer, DenseI32ArrayAttr:$offsets);
  let results = (outs NGPU_AnyBuffer:$result);
  let assemblyFormat = "$buffer $offsets attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_TransBufferOp : NGPU_Op<"trans_buffer", [Pure]> {
  let summary = "a buffer seen with its dimensions permuted: dimension i is dimension order[i]";
  let arguments = (ins NGPU_AnyBuffer:$buffer, DenseI32ArrayAttr:$order);
  let results = (outs NGPU_AnyBuffer:$result);
  let assemblyFormat = "$buffer $order attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_ReshapeBufferOp : NGPU_Op<"reshape_buffer", [Pure]> {
  let summary = "a buffer seen under another shape, in row-major order";
  let arguments = (ins NGPU_AnyBuffer:$buffer);
  let results = (outs NGPU_AnyBuffer:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_LocalLoadOp : NGPU_Op<"local_load"> {
  let summary = "reads a whole buffer into registers";
  let arguments = (ins Arg<NGPU_AnyBuffer, "", [MemRead<NGPU_SharedMemory>]>:$buffer);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_LocalStoreOp : NGPU_Op<"local_store"> {
  let summary = "writes a whole tensor to a buffer";
  let arguments = (ins Tile_Tensor:$src, Arg<NGPU_AnyBuffer, "", [MemWrite<NGPU_SharedMemory>]>:$buffer);
  let assemblyFormat = "$src `,` $buffer attr-dict `:` type($src) `,` type($buffer)";
  let hasVerifier = 1;
}

//===--- synchronisation --------------------------------------------------------------------------------===//

def NGPU_BarrierOp : NGPU_Op<"barrier", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "all warps of the region wait for one another; orders their accesses to shared memory";
  let description = "Without `id`: barrier 0 and all warps of the region. With: a named barrier (1..15) of `warps` warps.";
  let arguments = (ins OptionalAttr<I32Attr>:$id, OptionalAttr<I32Attr>:$warps);
  let assemblyFormat = "(`id` $id^)? (`warps` $warps^)? attr-dict";
}

def NGPU_GroupBarrierOp : NGPU_Op<"group_barrier", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "the four warps of each group of the region wait for one another; orders their accesses to shared memory";
  let description = "Groups do not wait for other groups. The region has four warps or a multiple of that.";
  let assemblyFormat = "attr-dict";
}

def NGPU_FenceAsyncOp : NGPU_Op<"fence_async", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "earlier ordinary writes to shared memory are seen by later asynchronous ones (fence.proxy.async)";
  let description = [{
    Each writing thread runs it before the barrier after which wgmma or a bulk copy reads. `global`: writes to global memory as well.
    `cluster`: also shows mbarriers that this thread has made to the other blocks of the cluster, behind the next barrier of the cluster.
  }];
  let arguments = (ins UnitAttr:$global, UnitAttr:$cluster);
  let assemblyFormat = "(`global` $global^)? (`cluster` $cluster^)? attr-dict";
}

def NGPU_MBarrierInitOp : NGPU_Op<"mbarrier_init"> {
  let summary = "makes an mbarrier that expects `count` arrivals a phase; one thread does, then fence";
  let arguments = (ins Arg<NGPU_MBarrier, "", [MemWrite<NGPU_SharedMemory>]>:$barrier, I32Attr:$count);
  let assemblyFormat = "$barrier `,` $count attr-dict `:` type($barrier)";
}

def NGPU_MBarrierInvalOp : NGPU_Op<"mbarrier_inval"> {
  let summary = "ends an mbarrier, before its bytes are used again";
  let arguments = (ins Arg<NGPU_MBarrier, "", [MemWrite<NGPU_SharedMemory>]>:$barrier);
  let assemblyFormat = "$barrier attr-dict `:` type($barrier)";
}

def NGPU_MBarrierExpectOp : NGPU_Op<"mbarrier_expect"> {
  let summary = "one thread arrives and announces `bytes` of bulk copies for this phase";
  let arguments = (ins Arg<NGPU_MBarrier, "", [MemWrite<NGPU_SharedMemory>]>:$barrier, I32Attr:$bytes, Optional<I1>:$predicate);
  let assemblyFormat = "$barrier `,` $bytes (`if` $predicate^)? attr-dict `:` type($barrier)";
}

def NGPU_MBarrierArriveOp : NGPU_Op<"mbarrier_arrive", [AttrSizedOperandSegments]> {
  let summary = "one thread of the region arrives, `count` times";
  let description = [{
    With `each_warp` one thread of every warp arrives once. With `beside` it then arrives a second time: at the other block's mbarrier in the
    same place where `beside` is true, else at its own. Only in a kernel with `ngpu.pairs`.
  }];
  let arguments = (ins Arg<NGPU_MBarrier, "", [MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>:$barrier,
                       DefaultValuedAttr<I32Attr, "1">:$count, UnitAttr:$each_warp, Optional<I1>:$predicate,
                       Optional<I1>:$beside);
  let assemblyFormat = [{
    $barrier (`count` $count^)? (`each_warp` $each_warp^)? (`if` $predicate^)? (`beside` $beside^)? attr-dict `:` type($barrier)
  }];
  let hasVerifier = 1;
}

def NGPU_MBarrierWaitOp : NGPU_Op<"mbarrier_wait"> {
  let summary = "every thread waits until the phase of the given parity (0 or 1) has completed";
  let arguments = (ins Arg<NGPU_MBarrier, "", [MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>:$barrier, I32:$parity,
                       Optional<I1>:$predicate);
  let assemblyFormat = "$barrier `,` $parity (`if` $predicate^)? attr-dict `:` type($barrier)";
}

def NGPU_ClusterBarrierOp : NGPU_Op<"cluster_barrier", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "all threads of the cluster wait for one another";
  let description = [{
    What they have written to memory before is seen by all of them behind it. `arrive_only` and `wait_only` are its two
    halves: the first waits for nobody and orders no accesses, the second waits until all threads have come to the first.
  }];
  let arguments = (ins UnitAttr:$arrive_only, UnitAttr:$wait_only);
  let assemblyFormat = "(`arrive_only` $arrive_only^)? (`wait_only` $wait_only^)? attr-dict";
}

def NGPU_ClusterRankOp : NGPU_Op<"cluster_rank", [Pure]> {
  let summary = "this block's rank in its cluster";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def NGPU_ClusterSizeOp : NGPU_Op<"cluster_size", [Pure]> {
  let summary = "the number of blocks of this block's cluster, which the launcher has chosen: a power of two";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def NGPU_ProgramsOp : NGPU_Op<"programs", [Pure]> {
  let summary = "the number of programs of the launch along the first axis";
  let description = [{
    Only in a kernel with `ngpu.persistent`, of which the launcher starts fewer blocks or clusters than programs and passes this number.
    `tile.num_programs` of axis 0 is then the number of those that run at the same time.
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def NGPU_SumBlocksOp : NGPU_Op<"sum_blocks", [Elementwise, AllTypesMatch<["src", "result"]>,
    MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "the first block of the cluster adds the tensors that all of its blocks have there";
  let description = [{
    Element by element, in the order of the blocks. All blocks of a cluster of two or more come to it together. The result of the other
    blocks has no meaning. Only in a kernel with `ngpu.splits`.
  }];
  let arguments = (ins Tile_TensorOf<[F32]>:$src);
  let results = (outs Tile_TensorOf<[F32]>:$result);
  let assemblyFormat = "$src attr-dict `:` type($src)";
  let hasVerifier = 1;
}

//===--- asynchronous copies ----------------------------------------------------------------------------===//

def NGPU_AsyncCopyOp : NGPU_Op<"async_copy", [MemoryEffects<[MemRead]>]> {
  let summary = "copies from global to shared memory, past the registers (cp.async)";
  let description = [{
    The tensor of pointers gives where every element comes from and, by its layout, which thread copies it. Lanes
    masked off put zeros. Copies have 4, 8 or 16 bytes: the pointers' layout and contiguity provide for that
    (`contiguity`: elements that one copy moves). Complete after the `async_wait` that covers its group.
  }];
  let arguments = (ins Tile_Tensor:$ptr, Arg<NGPU_AnyBuffer, "", [MemWrite<NGPU_SharedMemory>]>:$buffer,
                       Optional<Tile_Tensor>:$mask,
                       I32Attr:$contiguity,
                       DefaultValuedAttr<Tile_CacheModifier, "::nereid::tile::CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionPolicy, "::nereid::tile::EvictionPolicy::Normal">:$evict);
  let assemblyFormat = [{
    $ptr `,` $buffer (`mask` $mask^)? `contiguity` $contiguity (`cache` $cache^)? (`evict` $evict^)? attr-dict
    `:` type($ptr) `,` type($buffer) (`,` type($mask)^)?
  }];
  let extraClassDeclaration = "static bool readsGlobalMemory() { return true; }";
  let hasVerifier = 1;
}

def NGPU_FetchOp : NGPU_Op<"fetch", [MemoryEffects<[MemRead, MemWrite<NGPU_AsyncCopies>]>]> {
  let summary = "copies a tensor from global memory to shared memory of the thread's own (cp.async)";
  let description = [{
    Every thread copies its elements to bytes of `buffer` that no other thread uses, so that no barrier is needed; `fetched` reads
    them. Where they lie follows from the layout of the pointers, whose threads hold no element twice. Copies have 4, 8 or 16 bytes
    (`contiguity`: elements that one copy moves); lanes masked off put zeros. Complete after the `async_wait` that covers its group.
  }];
  let arguments = (ins Tile_Tensor:$ptr, NGPU_AnyBuffer:$buffer, Optional<Tile_Tensor>:$mask, I32Attr:$contiguity,
                       DefaultValuedAttr<Tile_CacheModifier, "::nereid::tile::CacheModifier::None">:$cache,
                       DefaultValuedAttr<Tile_EvictionPolicy, "::nereid::tile::EvictionPolicy::Normal">:$evict);
  let assemblyFormat = [{
    $ptr `,` $buffer (`mask` $mask^)? `contiguity` $contiguity (`cache` $cache^)? (`evict` $evict^)? attr-dict
    `:` type($ptr) `,` type($buffer) (`,` type($mask)^)?
  }];
  let extraClassDeclaration = "static bool readsGlobalMemory() { return true; }";
  let hasVerifier = 1;
}

def NGPU_FetchedOp : NGPU_Op<"fetched", [AttrSizedOperandSegments, MemoryEffects<[MemRead<NGPU_AsyncCopies>]>]> {
  let summary = "the tensor that the last `fetch` has copied to `buffer`";
  let description = [{
    `ptr` is where that copy came from; only how its elements follow one another is used. Elements masked off are those of `other`, or
    zero. Behind an `async_wait` for the copy.
  }];
  let arguments = (ins Tile_Tensor:$ptr, NGPU_AnyBuffer:$buffer, Optional<Tile_Tensor>:$mask, Optional<Tile_Tensor>:$other,
                       I32Attr:$contiguity);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $ptr `,` $buffer (`mask` $mask^)? (`other` $other^)? `contiguity` $contiguity attr-dict
    `:` type($ptr) `,` type($buffer) (`,` type($mask)^)? (`,` type($other)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def NGPU_AsyncCommitOp : NGPU_Op<"async_commit", [MemoryEffects<[MemWrite<NGPU_AsyncCopies>]>]> {
  let summary = "the copies since the last commit become a group";
  let assemblyFormat = "attr-dict";
}

def NGPU_AsyncWaitOp : NGPU_Op<"async_wait", [MemoryEffects<[MemRead<NGPU_AsyncCopies>, MemWrite<NGPU_AsyncCopies>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "waits until at most `pending` groups of this thread's copies are unfinished";
  let description = "Copies of other threads are visible after the barrier that follows (inserted automatically).";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def NGPU_TensorMapOfOp : NGPU_Op<"tensor_map", [Pure]> {
  let summary = "the tensor map of a descriptor that the launcher made";
  let description = "`argument`: which launch-plan entry of the kernel carries the map (a 64-byte aligned parameter).";
  let arguments = (ins I32Attr:$argument);
  let results = (outs NGPU_Map:$result);
  let assemblyFormat = "$argument attr-dict";
}

def NGPU_TensorMapMadeOp : NGPU_Op<"tensor_map_made", [Pure]> {
  let summary = "whether the launcher could make an optional tensor map";
  let description = "A map that it could not make is 128 bytes of zeros, which no map is.";
  let arguments = (ins NGPU_Map:$map);
  let results = (outs I1:$result);
  let assemblyFormat = "$map attr-dict";
}

def NGPU_TmaLoadOp : NGPU_Op<"tma_load", [AttrSizedOperandSegments]> {
  let summary = "the copy engine fills a buffer with a box of a tensor and signals an mbarrier";
  let description = [{
    Coordinates in elements, outermost first. A buffer wider than its swizzle span takes several boxes. Boxes out of
    bounds are zero (or NaN) filled and count fully. `shared`: where it is true, both blocks of a pair come to the op and want the same box in
    the same place. Each brings every other box, beginning with that of its rank, exchanged where `turn` is odd, to both; each
    mbarrier gets all bytes. Only in a kernel with `ngpu.pairs`.
  }];
  let arguments = (ins NGPU_Map:$map, Variadic<I32>:$coords,
                       Arg<NGPU_AnyBuffer, "", [MemWrite<NGPU_SharedMemory>]>:$buffer,
                       Arg<NGPU_MBarrier, "", [MemWrite<NGPU_SharedMemory>]>:$barrier,
                       Optional<I1>:$predicate, Optional<I1>:$shared, Optional<I32>:$turn,
                       DefaultValuedAttr<Tile_EvictionPolicy, "::nereid::tile::EvictionPolicy::Normal">:$evict);
  let assemblyFormat = [{
    $map `[` $coords `]` `,` $buffer `,` $barrier (`if` $predicate^)? (`shared` $shared^ `by` $turn)? (`evict` $evict^)?
    attr-dict `:` type($buffer) `,` type($barrier)
  }];
  let hasVerifier = 1;
}

def NGPU_TmaStoreOp : NGPU_Op<"tma_store"> {
  let summary = "the copy engine writes a buffer to a box of a tensor; one bulk group";
  let description = [{
    With `reduce`: combines into memory. `fence_async` and a barrier come before. With `chunk`: one thread of each group of four
    warps stores what the group has written, as a bulk group of its own. Of every 2 or more chunks of so many rows
    that follow one another, one for each group, each group has one; the buffer's layout is `chunkedLayout`, and the boxes of the map
    have `chunk` rows. With `columns`: the same, but each group stores as many columns, the first group the first ones.
  }];
  let arguments = (ins NGPU_Map:$map, Variadic<I32>:$coords,
                       Arg<NGPU_AnyBuffer, "", [MemRead<NGPU_SharedMemory>]>:$buffer,
                       OptionalAttr<Tile_AtomicKind>:$reduce, OptionalAttr<I32Attr>:$chunk, OptionalAttr<I32Attr>:$columns);
  let assemblyFormat = "$buffer `to` $map `[` $coords `]` (`reduce` $reduce^)? (`chunk` $chunk^)? (`columns` $columns^)? attr-dict `:` type($buffer)";
}

def NGPU_TmaStoreWaitOp : NGPU_Op<"tma_store_wait", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "waits until at most `pending` bulk groups still read shared memory (all of them written: `complete`)";
  let description = "The thread that issues stores waits for its own. `each_group`: one thread of each group of four warps does.";
  let arguments = (ins I32Attr:$pending, UnitAttr:$complete, UnitAttr:$each_group);
  let assemblyFormat = "$pending (`complete` $complete^)? (`each_group` $each_group^)? attr-dict";
}

//===--- matrix units -----------------------------------------------------------------------------------===//

def NGPU_MmaOp : NGPU_Op<"mma", [Pure, AllTypesMatch<["c", "result"]>]> {
  let summary = "a x b + c by mma.sync, all three in registers, in its fragment layouts";
  let description = [{
    Operands' elements: f16, bf16, f32 (as tf32: 19 bits count), f8 (where the machine has them), i8, f64. Leading dimensions are batches.
    `a_unsigned`, `b_unsigned`: for i8.
  }];
  let arguments = (ins Tile_Tensor:$a, Tile_Tensor:$b, Tile_Tensor:$c, UnitAttr:$a_unsigned, UnitAttr:$b_unsigned);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_FmaDotOp : NGPU_Op<"fma_dot", [AllTypesMatch<["c", "result"]>]> {
  let summary = "a x b + c by ordinary arithmetic in the accumulator's type; operands are read from shared memory";
  let arguments = (ins Arg<NGPU_AnyBuffer, "", [MemRead<NGPU_SharedMemory>]>:$a,
                       Arg<NGPU_AnyBuffer, "", [MemRead<NGPU_SharedMemory>]>:$b, Tile_Tensor:$c);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)";
  let hasVerifier = 1;
}

def NGPU_WgmmaOp : NGPU_Op<"wgmma", [AllTypesMatch<["c", "result"]>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a x b + c by wgmma: groups of four warps, B and often A straight from shared memory";
  let description = [{
    A is a buffer, or a tensor in wgmma's A layout (f16, bf16, tf32, 8 bits). B is a buffer [K, N]. Buffers have
    `sharedSwizzled` layouts; MN-major ones only for 16-bit elements. `use_acc` false means a x b. The op issues all its
    instructions as one group and, unless `async`, waits for it. An async result may be used by further wgmma with the
    same accumulator, by loops that carry it, by branches that yield it, and by `wgmma_wait`; nothing else. `promote_k`: fp8 accumulators are
    added to registers of full precision after every so many elements of K (0: never).
  }];
  let arguments = (ins AnyTypeOf<[Tile_Tensor, NGPU_AnyBuffer]>:$a, NGPU_AnyBuffer:$b, Tile_Tensor:$c,
                       Optional<I1>:$use_acc, UnitAttr:$async, DefaultValuedAttr<I32Attr, "0">:$promote_k);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $c (`use_acc` $use_acc^)? (`async` $async^)? (`promote_k` $promote_k^)? attr-dict
    `:` type($a) `,` type($b) `->` type($result)
  }];
  let hasVerifier = 1;
}

def NGPU_WgmmaWaitOp : NGPU_Op<"wgmma_wait", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "waits until at most `pending` wgmma groups are in flight; gives the accumulators that are then complete";
  let description = [{
    Values pass through: accumulators tie the wait into the data flow; buffers among the operands stay alive until here.
  }];
  let arguments = (ins I32Attr:$pending, Variadic<AnyType>:$values);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$pending (`for` $values^ `:` type($values))? attr-dict (`->` type($results)^)?";
  let hasVerifier = 1;
}

//===--- warp specialisation ----------------------------------------------------------------------------===//

def NGPU_WarpSpecializeOp : NGPU_Op<"warp_specialize", [RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<RegionBranchOpInterface, ["getRegionInvocationBounds"]>]> {
  let summary = "several groups of warps run a region each, at the same time";
  let description = [{
    Region 0 is run by the kernel's `ngpu.num_warps` warps; region i > 0 by `partition_warps[i-1]` further warps, which
    the kernel is launched with and which idle elsewhere. `registers[i]`: registers of a thread in region i (setmaxnreg; 0: leave).
    Regions share buffers, channels, constants and the kernel's arguments, not tensors nor other scalars from outside; they talk
    through channels or mbarriers. The results are region 0's; the op ends when all regions have. It stands in the kernel's outermost block. With
    `registers` every part begins at a multiple of four warps, those that are left over idle.
  }];
  let arguments = (ins DenseI32ArrayAttr:$partition_warps, DenseI32ArrayAttr:$registers);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$parts);
  let assemblyFormat = "`warps` $partition_warps `registers` $registers (`->` type($results)^)? $parts attr-dict";
  let hasVerifier = 1;
}

def NGPU_PartYieldOp : NGPU_Op<"part_yield", [Pure, Terminator, ReturnLike, ParentOneOf<["WarpSpecializeOp"]>]> {
  let summary = "ends a region of warp_specialize; region 0 yields the results";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def NGPU_TurnStartOp : NGPU_Op<"turn_start", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "the first group of four warps has the turn";
  let description = [{
    The groups of four warps of the kernel's own warps issue matrix products in turn. Each group has a named barrier, which
    the group itself and the one before it (the last one before the first) arrive at. Once in a kernel.
  }];
  let assemblyFormat = "attr-dict";
}

def NGPU_TurnTakeOp : NGPU_Op<"turn_take", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "waits until it is this group's turn";
  let assemblyFormat = "attr-dict";
}

def NGPU_TurnPassOp : NGPU_Op<"turn_pass", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "gives the turn to the next group; does not wait";
  let assemblyFormat = "attr-dict";
}

def NGPU_AnyInWarpOp : NGPU_Op<"any_in_warp", [MemoryEffects<[MemRead<NGPU_SharedMemory>]>]> {
  let summary = "does a thread of this warp have a true value?";
  let description = [{
    The result differs between warps, unlike other scalars. It is only for branches in which a warp does nothing together with
    other warps. The effect keeps the op where it is.
  }];
  let arguments = (ins Tile_TensorOf<[I1]>:$values);
  let results = (outs I1:$result);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

//===--- channels ---------------------------------------------------------------------------------------===//
//
// A channel carries tiles from the part of a warp_specialize that copies to the one that computes. Slots are used in
// turn. Both sides count along: `slot` is the number of the slot, `phase` (0 or 1) the parity of the turn. The tiles are in
// buffers of as many slots. `lower-channels` verifies the protocol and makes mbarriers of it.

def NGPU_ChannelOp : NGPU_Op<"channel", [MemoryEffects<[MemAlloc<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "a channel, all slots empty";
  let description = [{
    `readers`: warps that release every slot. `paired`: copies fill the slots of both blocks of a pair, so that a slot is empty when the readers of both
    have released it; only in a kernel with `ngpu.pairs`.
  }];
  let arguments = (ins I32Attr:$readers, UnitAttr:$paired);
  let results = (outs NGPU_Channel:$result);
  let assemblyFormat = "`readers` $readers (`paired` $paired^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NGPU_ChannelPutOp : NGPU_Op<"channel_put", [SingleBlock, NoTerminator,
    MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>, MemRead]>]> {
  let summary = "waits until a slot is empty and fills it by the copies in the region";
  let description = [{
    The region's argument is the mbarrier that the copies signal. It holds `tma_load`s and what is pure; the slot counts as
    filled when all their bytes have arrived. `beside`, of a paired channel only: does the other block come to this put and to the release of its slot, too?
  }];
  let arguments = (ins NGPU_Channel:$channel, I32:$slot, I32:$phase, Optional<I1>:$beside);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$channel `[` $slot `,` $phase `]` (`beside` $beside^)? $body attr-dict `:` type($channel)";
  let hasVerifier = 1;
}

def NGPU_ChannelGetOp : NGPU_Op<"channel_get", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "waits until a slot is filled; its buffers may be read until the hold is released";
  let arguments = (ins NGPU_Channel:$channel, I32:$slot, I32:$phase);
  let results = (outs NGPU_Hold:$result);
  let assemblyFormat = "$channel `[` $slot `,` $phase `]` attr-dict `:` type($channel)";
}

def NGPU_ChannelNoneOp : NGPU_Op<"channel_none", [MemoryEffects<[MemWrite<NGPU_AsyncCopies>]>]> {
  let summary = "the hold of no slot, to begin a loop with";
  let results = (outs NGPU_Hold:$result);
  let assemblyFormat = "attr-dict";
}

def NGPU_ChannelReleaseOp : NGPU_Op<"channel_release", [MemoryEffects<[MemRead<NGPU_SharedMemory>, MemWrite<NGPU_SharedMemory>]>]> {
  let summary = "every warp of the region has read the slot: it counts as empty when all have said so";
  let description = "`beside`: see `channel_put`.";
  let arguments = (ins NGPU_Channel:$channel, NGPU_Hold:$hold, Optional<I1>:$beside);
  let assemblyFormat = "$channel `,` $hold (`beside` $beside^)? attr-dict `:` type($channel)";
}

#endif // NEREID_NGPU_OPS
