// Asynchronous operations: copies by cp.async and by the copy engine (TMA), mbarriers, and the
// barriers and fences that order them.
#include "gpu/copies/TmaBox.h"
#include "gpu/emit/SharedAccess.h"
#include "layout/Conversion.h"
#include "targets/nvidia/emit/Words.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::nvidia {

using gpu::SharedAddresses;

namespace {

void statement(Emitter &e, llvm::StringRef text, llvm::StringRef constraints,
               llvm::ArrayRef<llvm::Value *> args) {
  e.ptx(e.b.getVoidTy(), text, constraints, args, true);
}

/// Optional predicates of ops: null when there is none.
llvm::Value *predicateOf(Emitter &e, Value predicate) {
  return predicate ? e.scalar(predicate) : nullptr;
}

//===--- cp.async
//--------------------------------------------------------------------------------===//

/// The policy of a cp.async; null where there is none. Assemblers before CUDA 13.4 make illegal
/// instructions of copies with one (on an H200), so it is dropped for them: it is only a hint.
llvm::Value *copyPolicy(Emitter &e, tile::CacheModifier cache, tile::EvictionPolicy evict) {
  return e.options.ptxVersion >= 94 ? policyOf(e, cache, evict) : nullptr;
}

/// Elements that differ in these register bits are moved by one copy.
unsigned spread(unsigned index, llvm::ArrayRef<unsigned> bits) {
  unsigned result = 0;
  for (auto [i, bit] : llvm::enumerate(bits))
    result |= (index >> i & 1) << bit;
  return result;
}

void emitAsyncCopy(Emitter &e, ngpu::AsyncCopyOp op) {
  auto pointers = cast<RankedTensorType>(op.getPtr().getType());
  ngpu::BufferType buffer = op.getBuffer().getType();
  const LinearLayout &from = ngpu::layoutOf(pointers).getLayout();
  const LinearLayout &to = buffer.getLayout().getLayout();
  unsigned element = tile::sizeInBytes(buffer.getElementType());
  unsigned bytes = op.getContiguity() * element;

  VectorAccess vector = vectorAccess(from, to, element * 8);
  if (vector.elements < op.getContiguity())
    return e.fail(op, "internal error: an asynchronous copy is wider than its buffer's rows");
  llvm::ArrayRef<unsigned> inside =
      llvm::ArrayRef(vector.registerBits).take_front(llvm::Log2_32(op.getContiguity()));
  unsigned insideMask = spread(op.getContiguity() - 1, inside);

  PlaceMap map = locate(to, from);
  auto columns = [&](Axis axis) {
    llvm::SmallVector<uint32_t> result;
    for (unsigned bit = 0; bit < from.bits(axis); ++bit)
      result.push_back(map.apply(axis, int64_t(1) << bit, Axis::Offset) * element);
    return result;
  };
  SharedAddresses addresses(e, e.scalar(op.getBuffer()), columns(Axis::Lane), columns(Axis::Warp));
  llvm::ArrayRef<llvm::Value *> sources = e.get(op.getPtr());
  llvm::ArrayRef<llvm::Value *> masks;
  if (op.getMask())
    masks = e.get(op.getMask());
  llvm::Value *owner = e.owner(pointers);

  // .cg keeps the data out of L1, where a tile that is read once has no business.
  std::string copy = bytes == 16 && op.getCache() != tile::CacheModifier::CA
                         ? "cp.async.cg.shared.global"
                         : "cp.async.ca.shared.global";
  llvm::Value *policy = copyPolicy(e, op.getCache(), op.getEvict());
  if (policy)
    copy += ".L2::cache_hint";
  if (e.options.ptxVersion >= 74)
    copy += ".L2::128B";
  // Masked-off elements are zero: by a predicate of the copy, which takes no instruction of its
  // own; before PTX 7.5, and without a mask, as the number of bytes to read.
  bool predicated = !masks.empty() && e.options.ptxVersion >= 75;
  copy += " [$0], [$1], " + std::to_string(bytes) + (policy ? ", $2, $3;" : ", $2;");
  unsigned coreRegisters = from.size(Axis::Register);
  uint32_t repeatBytes = to.size(Axis::Offset) * element;
  for (unsigned reg = 0; reg < sources.size(); ++reg) {
    unsigned core = reg % coreRegisters;
    if ((core & insideMask) || e.isRedundantRegister(pointers, reg))
      continue;
    uint32_t offset = map.apply(Axis::Register, core, Axis::Offset) * element;
    llvm::Value *address = addresses.at(offset, reg / coreRegisters * repeatBytes);
    llvm::Value *reads = e.i32(bytes);
    if (predicated)
      reads = e.b.CreateNot(masks[reg]);
    else if (!masks.empty())
      reads = e.b.CreateSelect(masks[reg], reads, e.i32(0));
    std::string constraints = predicated ? "r,l,b" : "r,l,r";
    constraints += policy ? ",l" : "";
    llvm::SmallVector<llvm::Value *> args = {e.b.CreatePtrToInt(address, e.b.getInt32Ty()),
                                             sources[reg], reads};
    if (policy)
      args.push_back(policy);
    std::string guard = owner ? "@$" + std::to_string(args.size()) + " " : "";
    if (owner)
      args.push_back(owner);
    statement(e, guard + copy, owner ? constraints + ",b" : constraints, args);
  }
}

/// What `fetch` and `fetched` have in common: which elements go together, and where the thread has
/// them in shared memory.
class OwnElements {
public:
  OwnElements(Emitter &e, Operation *op, Value ptr, Value buffer, Value mask, unsigned contiguity)
      : e(e), bytes(contiguity * elementBytes(ptr)), access(e, op, ptr, mask, bytes) {
    if (access.elements() != contiguity) {
      e.fail(op, "internal error: a copy of a thread's own elements is not as wide as planned");
      return;
    }
    threads = e.options.machine.lanes * e.warpCount() / e.blockCount();
    base = e.hoisted([&]() -> llvm::Value * {
      llvm::Value *own = e.b.CreateMul(e.threadIndex(threads), e.i32(bytes));
      return e.b.CreateGEP(e.b.getInt8Ty(), e.scalar(buffer), own);
    });
  }

  static unsigned elementBytes(Value ptr) {
    return tile::sizeInBytes(cast<tile::PtrType>(tile::elementOf(ptr.getType())).getPointee());
  }
  llvm::ArrayRef<llvm::SmallVector<unsigned, 4>> groups() const { return access.groups(); }
  Address source(unsigned group) const { return access.address(groups()[group][0]); }
  llvm::Value *place(unsigned group) const {
    return e.b.CreateGEP(e.b.getInt8Ty(), base, e.i32(group * threads * bytes));
  }

private:
  Emitter &e;
  const unsigned bytes;
  GlobalAccess access;
  unsigned threads = 0;
  llvm::Value *base = nullptr;
};

void emitFetch(Emitter &e, ngpu::FetchOp op) {
  unsigned bytes = op.getContiguity() * OwnElements::elementBytes(op.getPtr());
  OwnElements own(e, op, op.getPtr(), op.getBuffer(), op.getMask(), op.getContiguity());
  if (e.failed())
    return;
  llvm::ArrayRef<llvm::Value *> masks;
  if (op.getMask())
    masks = e.get(op.getMask());
  llvm::Value *policy = copyPolicy(e, op.getCache(), op.getEvict());
  std::string copy = bytes == 16 && op.getCache() != tile::CacheModifier::CA
                         ? "cp.async.cg.shared.global"
                         : "cp.async.ca.shared.global";
  copy += policy ? ".L2::cache_hint" : "";
  // As in `emitAsyncCopy`.
  bool predicated = !masks.empty() && e.options.ptxVersion >= 75;
  std::string constraints = predicated ? "r,l,b" : "r,l,r";
  constraints += policy ? ",l,~{memory}" : ",~{memory}";
  for (unsigned group = 0; group < own.groups().size(); ++group) {
    llvm::Value *to = e.b.CreatePtrToInt(own.place(group), e.b.getInt32Ty());
    Address from = own.source(group);
    llvm::Value *reads = e.i32(bytes);
    if (llvm::Value *mask = masks.empty() ? nullptr : masks[own.groups()[group][0]])
      reads = predicated ? e.b.CreateNot(mask) : e.b.CreateSelect(mask, reads, e.i32(0));
    llvm::SmallVector<llvm::Value *> args = {to, from.base, reads};
    if (policy)
      args.push_back(policy);
    statement(e,
              copy + " [$0], " + addressText(from, 1) + ", " + std::to_string(bytes) + ", $2" +
                  (policy ? ", $3;" : ";"),
              constraints, args);
  }
}

void emitFetched(Emitter &e, ngpu::FetchedOp op) {
  auto pointee = cast<tile::PtrType>(tile::elementOf(op.getPtr().getType())).getPointee();
  unsigned bits = 8 * tile::sizeInBytes(pointee);
  OwnElements own(e, op, op.getPtr(), op.getBuffer(), op.getMask(), op.getContiguity());
  if (e.failed())
    return;
  llvm::Type *element = e.type(op.getType());
  Words words(bits, op.getContiguity());
  llvm::Type *word = e.intType(words.bits);
  llvm::Type *all = words.count == 1 ? word : llvm::FixedVectorType::get(word, words.count);
  Values results(e.registerCount(op.getType()), nullptr);
  for (unsigned group = 0; group < own.groups().size(); ++group) {
    llvm::ArrayRef<unsigned> registers = own.groups()[group];
    llvm::Value *read =
        e.b.CreateAlignedLoad(all, own.place(group), llvm::Align(op.getContiguity() * bits / 8));
    Values loaded;
    for (unsigned i = 0; i < words.count; ++i)
      loaded.push_back(words.count == 1 ? read : e.b.CreateExtractElement(read, uint64_t(i)));
    if (op.getOther()) {
      Values other;
      for (unsigned reg : registers)
        other.push_back(e.get(op.getOther())[reg]);
      for (auto [value, otherwise] : llvm::zip_equal(loaded, joinWords(e, other, words)))
        value = e.b.CreateSelect(e.get(op.getMask())[registers[0]], value, otherwise);
    }
    for (auto [reg, value] :
         llvm::zip_equal(registers, splitWords(e, loaded, words, element, registers.size())))
      results[reg] = value;
  }
  e.set(op.getResult(), results);
}

//===--- mbarriers
//-------------------------------------------------------------------------------===//

llvm::Value *addressOf(Emitter &e, Value buffer) {
  return e.b.CreatePtrToInt(e.scalar(buffer), e.b.getInt32Ty());
}

void emitWait(Emitter &e, ngpu::MBarrierWaitOp op) {
  llvm::Value *barrier = addressOf(e, op.getBarrier());
  // try_wait may time out: it is repeated until it succeeds.
  e.when(predicateOf(e, op.getPredicate()), [&] {
    statement(e,
              "{\n.reg .pred done;\nagain:\n"
              "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
              "@!done bra again;\n}",
              "r,r,~{memory}", {barrier, e.scalar(op.getParity())});
  });
}

/// The mbarriers of SendPartials.cpp, for one arrival and the bytes that it announces.
void makeSendBarriers(Emitter &e) {
  e.when(e.b.CreateICmpEQ(e.threadIndex(1024), e.i32(0)), [&] {
    for (unsigned at = 0; at < ngpu::kSendBarrierBytes; at += 8)
      statement(e, "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}",
                {e.b.CreatePtrToInt(e.shared(at), e.b.getInt32Ty())});
    statement(e, "fence.mbarrier_init.release.cluster;", "~{memory}", {});
  });
}

void emitArrival(Emitter &e, ngpu::MBarrierArriveOp op) {
  std::string count = " _, [$0], " + std::to_string(op.getCount()) + ";";
  statement(e, "mbarrier.arrive.shared::cta.b64" + count, "r,~{memory}",
            {addressOf(e, op.getBarrier())});
  if (!op.getBeside())
    return;
  // Without `.release.cluster`, a full memory barrier in machine code: what was read from the slot
  // has been used by products that have ended, and nothing was written.
  llvm::Value *beside = e.b.CreateZExt(e.scalar(op.getBeside()), e.b.getInt32Ty());
  llvm::Value *there = e.sharedOf(e.scalar(op.getBarrier()), e.b.CreateXor(e.blockRank(), beside));
  statement(e, "mbarrier.arrive.shared::cluster.b64" + count, "r,~{memory}",
            {e.b.CreatePtrToInt(there, e.b.getInt32Ty())});
}

//===--- TMA
//-------------------------------------------------------------------------------------===//

/// Calls `each(address in shared memory, coordinates innermost first)` for every box of a transfer.
template <typename Each>
void forBoxes(Emitter &e, const gpu::TmaBox &box, llvm::Value *base,
              llvm::ArrayRef<llvm::Value *> coords, Each each) {
  unsigned rank = box.box.size(), leading = coords.size() - rank;
  for (const gpu::TmaBox::Part &part : box.parts) {
    llvm::Value *address = base;
    if (part.byteOffset)
      address = e.b.CreateAdd(address, e.i32(part.byteOffset));
    Values at;
    for (unsigned i = coords.size(); i-- > 0;) {
      llvm::Value *coord = coords[i];
      if (i >= leading && part.start[i - leading])
        coord = e.b.CreateAdd(coord, e.i32(part.start[i - leading]));
      at.push_back(coord);
    }
    each(address, at);
  }
}

Values scalars(Emitter &e, OperandRange values) {
  return llvm::map_to_vector<8>(values, [&](Value value) { return e.scalar(value); });
}

std::string coordinateList(unsigned rank, unsigned first) {
  std::string text = "{";
  for (unsigned i = 0; i < rank; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

std::string repeated(llvm::StringRef constraint, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += ("," + constraint).str();
  return text;
}

void emitTmaLoad(Emitter &e, ngpu::TmaLoadOp op) {
  unsigned rank = op.getCoords().size();
  const std::string copy = "cp.async.bulk.tensor." + std::to_string(rank) +
                           "d.shared::cluster.global.mbarrier::complete_tx::bytes",
                    operands = " [$0], [$1, " + coordinateList(rank, 3) + "], [$2]",
                    constraints = "r,l,r" + repeated("r", rank);
  llvm::Value *condition = both(e, e.isFirstThread(), predicateOf(e, op.getPredicate()));
  llvm::Value *map = e.scalar(op.getMap()), *barrier = addressOf(e, op.getBarrier());
  gpu::TmaBox boxes = gpu::tmaBox(op.getBuffer().getType());
  auto issue = [&](const gpu::TmaBox &some, bool toBoth) {
    forBoxes(e, some, addressOf(e, op.getBuffer()), scalars(e, op.getCoords()),
             [&](llvm::Value *address, llvm::ArrayRef<llvm::Value *> at) {
               Values args = {address, map, barrier};
               args.append(at.begin(), at.end());
               if (!toBoth)
                 return statement(e, copy + operands + ";", constraints, args);
               args.push_back(e.b.getInt16(0b11));
               statement(e,
                         copy + ".multicast::cluster" + operands + ", $" +
                             std::to_string(3 + rank) + ";",
                         constraints + ",h", args);
             });
  };
  if (!op.getShared())
    return e.when(condition, [&] { issue(boxes, false); });
  // Every other box is this block's, to both.
  llvm::Value *shared = e.scalar(op.getShared());
  llvm::Value *turn = e.b.CreateAnd(e.b.CreateXor(e.blockRank(), e.scalar(op.getTurn())), 1);
  e.when(both(e, condition, e.b.CreateNot(shared)), [&] { issue(boxes, false); });
  for (unsigned first : {0, 1}) {
    gpu::TmaBox some = boxes;
    some.parts.clear();
    for (unsigned i = first; i < boxes.parts.size(); i += 2)
      some.parts.push_back(boxes.parts[i]);
    llvm::Value *isMine = e.b.CreateICmpEQ(turn, e.i32(first));
    if (!some.parts.empty())
      e.when(both(e, both(e, condition, shared), isMine), [&] { issue(some, true); });
  }
}

llvm::StringRef reductionName(tile::AtomicKind kind) {
  switch (kind) {
  case tile::AtomicKind::Add:
  case tile::AtomicKind::FAdd:
    return "add";
  case tile::AtomicKind::Max:
  case tile::AtomicKind::UMax:
  case tile::AtomicKind::FMax:
    return "max";
  case tile::AtomicKind::Min:
  case tile::AtomicKind::UMin:
  case tile::AtomicKind::FMin:
    return "min";
  case tile::AtomicKind::And:
    return "and";
  case tile::AtomicKind::Or:
    return "or";
  case tile::AtomicKind::Xor:
    return "xor";
  case tile::AtomicKind::Xchg:
    return "";
  }
  return "";
}

llvm::Value *groupOf(Emitter &e) {
  return e.b.CreateLShr(e.uniformWarpId(), 2);
}

/// Threads of a group of four warps.
constexpr unsigned groupThreads = 128;

/// The thread that issues and waits for stores: of the region, or of each group.
llvm::Value *storingThread(Emitter &e, bool eachGroup) {
  if (!eachGroup)
    return e.isFirstThread();
  return e.b.CreateICmpEQ(e.b.CreateAnd(e.threadId(), e.i32(groupThreads - 1)), e.i32(0));
}

/// The same for the boxes that this group stores, with `op.chunk`.
template <typename Each> void forChunks(Emitter &e, ngpu::TmaStoreOp op, Each each) {
  ngpu::BufferType type = op.getBuffer().getType();
  int64_t chunk = *op.getChunk(), groups = e.warpCount() / 4;
  int64_t chunks = type.getShape()[0] / chunk / groups; // of a group
  unsigned bits = 8 * tile::sizeInBytes(type.getElementType());
  gpu::TmaBox box = gpu::tmaBox({chunk, type.getShape()[1]}, bits);
  llvm::Value *group = groupOf(e);
  llvm::Value *base = e.b.CreateAdd(addressOf(e, op.getBuffer()),
                                    e.b.CreateMul(group, e.i32(type.getBytes() / groups)));
  Values coords = scalars(e, op.getCoords());
  llvm::Value *&row = coords[coords.size() - 2];
  row = e.b.CreateAdd(row, e.b.CreateMul(group, e.i32(chunk)));
  for (int64_t number = 0; number < chunks; ++number) {
    uint32_t bytes = number * type.getBytes() / groups / chunks;
    forBoxes(e, box, e.b.CreateAdd(base, e.i32(bytes)), coords, each);
    row = e.b.CreateAdd(row, e.i32(chunk * groups));
  }
}

/// The same with `op.columns`: the boxes of a group follow one another in each row of boxes.
template <typename Each> void forColumns(Emitter &e, ngpu::TmaStoreOp op, Each each) {
  int32_t columns = *op.getColumns();
  gpu::TmaBox all = gpu::tmaBox(op.getBuffer().getType()), box = all;
  box.parts.clear();
  uint32_t second = 0; // where the first box of the second group is
  for (const gpu::TmaBox::Part &part : all.parts) {
    if (part.start.back() < columns)
      box.parts.push_back(part);
    else if (llvm::all_of(llvm::ArrayRef(part.start).drop_back(), [](int32_t at) { return !at; }) &&
             part.start.back() == columns)
      second = part.byteOffset;
  }
  llvm::Value *group = groupOf(e);
  Values coords = scalars(e, op.getCoords());
  coords.back() = e.b.CreateAdd(coords.back(), e.b.CreateMul(group, e.i32(columns)));
  forBoxes(e, box, e.b.CreateAdd(addressOf(e, op.getBuffer()), e.b.CreateMul(group, e.i32(second))),
           coords, each);
}

void emitTmaStore(Emitter &e, ngpu::TmaStoreOp op) {
  unsigned rank = op.getCoords().size();
  std::string dims = std::to_string(rank) + "d.global.shared::cta.";
  std::string text = "cp.async.bulk.tensor." + dims + "tile.bulk_group";
  if (op.getReduce()) {
    llvm::StringRef kind = reductionName(*op.getReduce());
    if (kind.empty())
      return e.fail(op, "internal error: the copy engine cannot exchange");
    text = "cp.reduce.async.bulk.tensor." + dims + kind.str() + ".tile.bulk_group";
  }
  text += " [$0, " + coordinateList(rank, 2) + "], [$1];";
  std::string constraints = "l,r" + repeated("r", rank);
  e.when(storingThread(e, op.getChunk().has_value() || op.getColumns().has_value()), [&] {
    llvm::Value *map = e.scalar(op.getMap());
    auto store = [&](llvm::Value *address, llvm::ArrayRef<llvm::Value *> at) {
      Values args = {map, address};
      args.append(at.begin(), at.end());
      statement(e, text, constraints, args);
    };
    if (op.getChunk())
      forChunks(e, op, store);
    else if (op.getColumns())
      forColumns(e, op, store);
    else
      forBoxes(e, gpu::tmaBox(op.getBuffer().getType()), addressOf(e, op.getBuffer()),
               scalars(e, op.getCoords()), store);
    statement(e, "cp.async.bulk.commit_group;", "", {});
  });
}

//===--- turns of the groups of four warps
//-----------------------------------------------------===//

/// The named barrier of the first group; the others' follow. Lower ones belong to parts, higher
/// ones to `group_barrier`.
constexpr unsigned firstTurnBarrier = 8;

/// One group passes the turn to another.
constexpr unsigned turnThreads = 2 * groupThreads;

/// The named barrier of the first group, within which its warps wait for one another.
constexpr unsigned firstGroupBarrier = 12;

/// A group that is alone is the region, whose barrier 0 it may use.
void meetGroup(Emitter &e) {
  if (e.warpCount() == 4)
    return e.barrier();
  e.intrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count,
              {e.b.CreateAdd(groupOf(e), e.i32(firstGroupBarrier)), e.i32(groupThreads)});
}

void arriveForTurn(Emitter &e, llvm::Value *group) {
  e.intrinsic(llvm::Intrinsic::nvvm_barrier_cta_arrive_aligned_count,
              {e.b.CreateAdd(group, e.i32(firstTurnBarrier)), e.i32(turnThreads)});
}

void takeTurn(Emitter &e) {
  e.intrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count,
              {e.b.CreateAdd(groupOf(e), e.i32(firstTurnBarrier)), e.i32(turnThreads)});
}

void passTurn(Emitter &e) {
  unsigned groups = e.warpCount() / 4;
  llvm::Value *next = e.b.CreateAdd(groupOf(e), e.i32(1));
  arriveForTurn(e, e.b.CreateSelect(e.b.CreateICmpEQ(next, e.i32(groups)), e.i32(0), next));
}

void startTurns(Emitter &e) {
  e.when(e.b.CreateICmpEQ(groupOf(e), e.i32(e.warpCount() / 4 - 1)),
         [&] { arriveForTurn(e, e.i32(0)); });
}

/// The launcher's number of programs. One that does not know persistent kernels passes null, and
/// starts a block or cluster for each program.
llvm::Value *programs(Emitter &e) {
  llvm::Value *given = e.programs();
  return e.b.CreateSelect(e.b.CreateICmpEQ(given, e.i32(0)), e.programCount(0), given);
}

void emitAnyInWarp(Emitter &e, ngpu::AnyInWarpOp op) {
  llvm::Value *any = e.b.getFalse();
  for (llvm::Value *each : e.get(op.getValues()))
    any = e.b.CreateOr(any, each);
  e.set(op.getResult(), {e.intrinsic(llvm::Intrinsic::nvvm_vote_any_sync, {e.i32(~0u), any})});
}

} // namespace

bool emitAsync(Emitter &e, Operation *op) {
  using namespace ngpu;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](AsyncCopyOp op) { return emitAsyncCopy(e, op), true; })
      .Case([&](FetchOp op) { return emitFetch(e, op), true; })
      .Case([&](FetchedOp op) { return emitFetched(e, op), true; })
      .Case([&](ProgramsOp op) { return e.set(op.getResult(), {programs(e)}), true; })
      .Case([&](AsyncCommitOp) {
        return statement(e, "cp.async.commit_group;", "~{memory}", {}), true;
      })
      .Case([&](AsyncWaitOp op) {
        statement(e, "cp.async.wait_group " + std::to_string(op.getPending()) + ";", "~{memory}",
                  {});
        return true;
      })
      .Case([&](BarrierOp op) {
        if (!op.getId())
          return e.barrier(/*allBlocks=*/false), true;
        unsigned warps = op.getWarps().value_or(e.warpCount());
        e.ptx(e.b.getVoidTy(),
              "bar.sync " + std::to_string(*op.getId()) + ", " + std::to_string(warps * 32) + ";",
              "~{memory}", {}, true, true);
        return true;
      })
      .Case([&](AnyInWarpOp op) { return emitAnyInWarp(e, op), true; })
      .Case([&](GroupBarrierOp) { return meetGroup(e), true; })
      .Case([&](TurnStartOp) { return startTurns(e), true; })
      .Case([&](TurnTakeOp) { return takeTurn(e), true; })
      .Case([&](TurnPassOp) { return passTurn(e), true; })
      .Case([&](FenceAsyncOp op) {
        std::string text = op.getGlobal() ? "fence.proxy.async;" : "fence.proxy.async.shared::cta;";
        if (op.getCluster())
          statement(e, "fence.mbarrier_init.release.cluster;", "~{memory}", {});
        return statement(e, text, "~{memory}", {}), true;
      })
      .Case([&](MBarrierInitOp op) {
        e.when(e.isFirstThread(), [&] {
          statement(e, "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(op.getCount()) + ";",
                    "r,~{memory}", {addressOf(e, op.getBarrier())});
        });
        return true;
      })
      .Case([&](MBarrierInvalOp op) {
        e.when(e.isFirstThread(), [&] {
          statement(e, "mbarrier.inval.shared::cta.b64 [$0];", "r,~{memory}",
                    {addressOf(e, op.getBarrier())});
        });
        return true;
      })
      .Case([&](MBarrierExpectOp op) {
        e.when(both(e, e.isFirstThread(), predicateOf(e, op.getPredicate())), [&] {
          statement(e,
                    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " +
                        std::to_string(op.getBytes()) + ";",
                    "r,~{memory}", {addressOf(e, op.getBarrier())});
        });
        return true;
      })
      .Case([&](MBarrierArriveOp op) {
        llvm::Value *one =
            op.getEachWarp() ? e.b.CreateICmpEQ(e.laneId(), e.i32(0)) : e.isFirstThread();
        if (op.getEachWarp())
          e.syncWarp();
        e.when(both(e, one, predicateOf(e, op.getPredicate())), [&] { emitArrival(e, op); });
        return true;
      })
      .Case([&](MBarrierWaitOp op) { return emitWait(e, op), true; })
      .Case([&](ClusterBarrierOp op) {
        if (op.getArriveOnly()) {
          if (ngpu::sendBytes(e.kernel))
            makeSendBarriers(e);
          e.arriveAtBlocks();
        } else if (op.getWaitOnly()) {
          e.waitForBlocks();
        } else if (e.pairs) {
          e.barrierOfPair();
        } else {
          e.barrierOfBlocks();
        }
        return true;
      })
      .Case([&](ClusterRankOp op) { return e.set(op.getResult(), {e.blockRank()}), true; })
      .Case([&](ClusterSizeOp op) { return e.set(op.getResult(), {e.clusterSize()}), true; })
      .Case([&](TensorMapOfOp op) {
        return e.set(op.getResult(), {e.tensorMap(op.getArgument())}), true;
      })
      .Case([&](TensorMapMadeOp op) {
        return e.set(op.getResult(), {isMade(e, e.scalar(op.getMap()))}), true;
      })
      .Case([&](TmaLoadOp op) { return emitTmaLoad(e, op), true; })
      .Case([&](TmaStoreOp op) { return emitTmaStore(e, op), true; })
      .Case([&](TmaStoreWaitOp op) {
        e.when(storingThread(e, op.getEachGroup()), [&] {
          std::string read = op.getComplete() ? " " : ".read ";
          statement(e, "cp.async.bulk.wait_group" + read + std::to_string(op.getPending()) + ";",
                    "~{memory}", {});
        });
        return true;
      })
      .Default([](Operation *) { return false; });
}

} // namespace nereid::nvidia
