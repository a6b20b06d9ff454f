// Atomics.
//
// A scalar atomic is done by one thread, a tensor's by the one owner of each element; other holders
// of the element get the result through shared memory (gpu::scratchBytes). Where
// the ordering asks for it, the program as a whole releases and acquires: a barrier and a fence
// before, a fence and a barrier after, around relaxed instructions; so a tensor pays for one fence,
// not for one per element. A load or store that is one instruction of its thread is ordered by that
// instruction in place of the fence.
#include "targets/nvidia/emit/Words.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

using tile::AtomicKind;

StringRef scopeName(tile::MemScope scope) {
  switch (scope) {
  case tile::MemScope::GPU:
    return "gpu";
  case tile::MemScope::CTA:
    return "cta";
  case tile::MemScope::System:
    return "sys";
  }
  llvm_unreachable("an unknown scope");
}

/// What the ops have in common.
struct Atomic {
  explicit Atomic(tile::Atomic op)
      : op(op), ptr(op.getPtr()), mask(op.getMask()), sem(op.getSem()), scope(op.getScope()),
        isLoad(isa<tile::AtomicLoadOp>(op)), isStore(isa<tile::AtomicStoreOp>(op)),
        isUsed(op.getSeen() && !op.getSeen().use_empty()) {}

  Operation *op;
  mlir::Value ptr, mask;
  tile::MemSemantic sem;
  tile::MemScope scope;
  bool isLoad, isStore, isUsed;
  bool isOrdered = false; ///< by the instruction itself

  bool releases() const {
    return sem == tile::MemSemantic::Release || sem == tile::MemSemantic::AcqRel;
  }
  bool acquires() const {
    return sem == tile::MemSemantic::Acquire || sem == tile::MemSemantic::AcqRel;
  }
  /// "atom.relaxed.gpu.global.", or "red..." when the result is not used; "ld.acquire...".
  std::string prefix() const {
    std::string name = isLoad ? "ld." : isStore ? "st." : isUsed ? "atom." : "red.";
    name += isOrdered && acquires()   ? "acquire."
            : isOrdered && releases() ? "release."
                                      : "relaxed.";
    return name + scopeName(scope).str() + ".global.";
  }
};

/// One instruction on `words`: `text` names operation and type. Gives the old words; nothing with
/// `red` and `st`. Threads without `predicate` have undefined results.
Values instruction(Emitter &e, const Atomic &atomic, StringRef text, const Words &words,
                   const Address &address, llvm::ArrayRef<llvm::Value *> operands,
                   llvm::Value *predicate) {
  unsigned results = atomic.isUsed ? words.count : 0;
  std::string constraints, code;
  for (unsigned i = 0; i < results; ++i)
    constraints += std::string("=") + words.constraint() + ",";
  constraints += "l";
  Values args = {address.base};
  for (llvm::Value *operand : operands) {
    constraints += std::string(",") + words.constraint();
    args.push_back(operand);
  }
  if (predicate) {
    code = "@$" + std::to_string(results + args.size()) + " ";
    constraints += ",b";
    args.push_back(predicate);
  }
  code += atomic.prefix() + text.str() + " ";
  if (results)
    code += words.operands(0) + ", ";
  code += addressText(address, results);
  for (unsigned i = 0; i < operands.size(); i += words.count)
    code += ", " + words.operands(results + 1 + i);
  code += ";";
  llvm::Type *word = e.intType(words.registerBits());
  llvm::Type *type = e.b.getVoidTy();
  if (results)
    type = results == 1 ? word
                        : llvm::StructType::get(e.b.getContext(),
                                                llvm::SmallVector<llvm::Type *>(results, word));
  llvm::Value *result = e.ptx(type, code, constraints, args, /*sideEffects=*/true);
  if (results <= 1)
    return results ? Values{result} : Values{};
  Values values;
  for (unsigned i = 0; i < results; ++i)
    values.push_back(e.b.CreateExtractValue(result, i));
  return values;
}

/// Operation and type of the instruction for `kind` on `count` neighbouring elements, two at least
/// of 16-bit floats; empty when there is none.
std::string instructionName(AtomicKind kind, llvm::Type *type, unsigned count, int sm) {
  unsigned bits = type->getPrimitiveSizeInBits();
  if (kind == AtomicKind::FAdd) {
    if (type->isFloatTy())
      return count == 1 ? "add.f32" : "add.v" + std::to_string(count) + ".f32";
    if (type->isDoubleTy())
      return "add.f64";
    if (type->isBFloatTy() && sm < 90)
      return "";
    std::string name = type->isBFloatTy() ? "bf16" : "f16";
    return (count == 2 ? "add.noftz." : "add.noftz.v" + std::to_string(count / 2) + ".") + name +
           "x2";
  }
  if (bits != 32 && bits != 64)
    return "";
  std::string size = std::to_string(bits);
  switch (kind) {
  case AtomicKind::Add:
    return "add.u" + size;
  case AtomicKind::Max:
    return "max.s" + size;
  case AtomicKind::Min:
    return "min.s" + size;
  case AtomicKind::UMax:
    return "max.u" + size;
  case AtomicKind::UMin:
    return "min.u" + size;
  case AtomicKind::And:
    return "and.b" + size;
  case AtomicKind::Or:
    return "or.b" + size;
  case AtomicKind::Xor:
    return "xor.b" + size;
  case AtomicKind::Xchg:
    return "exch.b" + size;
  case AtomicKind::FAdd:
  case AtomicKind::FMax:
  case AtomicKind::FMin:
    return "";
  }
  llvm_unreachable("an unknown kind");
}

llvm::AtomicRMWInst::BinOp operationOf(AtomicKind kind) {
  switch (kind) {
  case AtomicKind::Add:
    return llvm::AtomicRMWInst::Add;
  case AtomicKind::FAdd:
    return llvm::AtomicRMWInst::FAdd;
  case AtomicKind::Max:
    return llvm::AtomicRMWInst::Max;
  case AtomicKind::Min:
    return llvm::AtomicRMWInst::Min;
  case AtomicKind::UMax:
    return llvm::AtomicRMWInst::UMax;
  case AtomicKind::UMin:
    return llvm::AtomicRMWInst::UMin;
  case AtomicKind::And:
    return llvm::AtomicRMWInst::And;
  case AtomicKind::Or:
    return llvm::AtomicRMWInst::Or;
  case AtomicKind::Xor:
    return llvm::AtomicRMWInst::Xor;
  case AtomicKind::Xchg:
    return llvm::AtomicRMWInst::Xchg;
  case AtomicKind::FMax:
    return llvm::AtomicRMWInst::FMaximum;
  case AtomicKind::FMin:
    return llvm::AtomicRMWInst::FMinimum;
  }
  llvm_unreachable("an unknown kind");
}

llvm::SyncScope::ID syncScope(Emitter &e, tile::MemScope scope) {
  switch (scope) {
  case tile::MemScope::GPU:
    return e.b.getContext().getOrInsertSyncScopeID("device");
  case tile::MemScope::CTA:
    return e.b.getContext().getOrInsertSyncScopeID("block");
  case tile::MemScope::System:
    return llvm::SyncScope::System;
  }
  llvm_unreachable("an unknown scope");
}

/// Adds one 16-bit float as the word around it, whose other half gets -0.0: that changes no number.
/// The assembler makes a loop of compare-and-swap on the same word of the instruction for one.
Values addToHalf(Emitter &e, const Atomic &atomic, StringRef pairName, const Address &address,
                 llvm::Value *element, llvm::Value *predicate) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *type = element->getType(), *i16 = b.getInt16Ty(), *i32 = b.getInt32Ty();
  llvm::Value *place = address.pointer(e);
  llvm::Value *offset = b.CreateAnd(b.CreatePtrToInt(place, b.getInt64Ty()), 2);
  llvm::Value *isUpper = b.CreateICmpNE(offset, b.getInt64(0));
  Address word{b.CreateGEP(b.getInt8Ty(), place, b.CreateNeg(offset))};
  llvm::Value *half = b.CreateZExt(b.CreateBitCast(element, i16), i32);
  llvm::Value *pair = b.CreateSelect(isUpper, b.CreateOr(b.CreateShl(half, 16), 0x8000u),
                                     b.CreateOr(half, 0x80000000u));
  Values old = instruction(e, atomic, pairName, Words(32, 1), word, {pair}, predicate);
  if (!atomic.isUsed)
    return {};
  llvm::Value *its = b.CreateSelect(isUpper, b.CreateLShr(old[0], 16), old[0]);
  return {b.CreateBitCast(b.CreateTrunc(its, i16), type)};
}

/// A read-modify-write on the elements of one access: the old ones, empty when they are not used.
Values modify(Emitter &e, const Atomic &atomic, AtomicKind kind, const Address &address,
              llvm::ArrayRef<llvm::Value *> elements, llvm::Value *predicate) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *type = elements[0]->getType();
  unsigned bits = type->isPointerTy() ? 64 : unsigned(type->getPrimitiveSizeInBits());
  Words words(bits, elements.size());
  if ((kind == AtomicKind::FMax || kind == AtomicKind::FMin) && bits >= 32) {
    // The bits of floats are ordered like signed integers where the operand is positive, and like
    // unsigned ones backwards where it is negative, whatever the memory holds.
    Values operand = joinWords(e, elements, words);
    llvm::Value *negative =
        b.CreateICmpSLT(operand[0], llvm::ConstantInt::get(operand[0]->getType(), 0));
    bool isMax = kind == AtomicKind::FMax;
    std::string size = std::to_string(bits);
    Values positiveOld = instruction(e, atomic, (isMax ? "max.s" : "min.s") + size, words, address,
                                     operand, both(e, predicate, b.CreateNot(negative)));
    Values negativeOld = instruction(e, atomic, (isMax ? "min.u" : "max.u") + size, words, address,
                                     operand, both(e, predicate, negative));
    if (!atomic.isUsed)
      return {};
    return splitWords(e, {b.CreateSelect(negative, negativeOld[0], positiveOld[0])}, words, type,
                      1);
  }
  bool half = kind == AtomicKind::FAdd && words.bits == 16;
  std::string name = instructionName(kind, type, half ? 2 : elements.size(), e.options.sm);
  if (half && !name.empty())
    return addToHalf(e, atomic, name, address, elements[0], predicate);
  if (!name.empty()) {
    Atomic form = atomic;
    form.isUsed |= kind == AtomicKind::Xchg; // there is no `red` of this kind
    Values old =
        instruction(e, form, name, words, address, joinWords(e, elements, words), predicate);
    return atomic.isUsed ? splitWords(e, old, words, type, elements.size()) : Values();
  }
  // LLVM makes a loop of compare-and-swap.
  assert(elements.size() == 1 && "only single elements lack an instruction");
  return e.when(predicate, {llvm::PoisonValue::get(type)}, [&]() -> Values {
    return {b.CreateAtomicRMW(operationOf(kind), address.pointer(e), elements[0],
                              llvm::Align(bits / 8), llvm::AtomicOrdering::Monotonic,
                              syncScope(e, atomic.scope))};
  });
}

Values compareAndSwap(Emitter &e, const Atomic &atomic, const Address &address,
                      llvm::Value *expected, llvm::Value *value, llvm::Value *predicate) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *type = value->getType();
  unsigned bits = type->isPointerTy() ? 64 : unsigned(type->getPrimitiveSizeInBits());
  Words words(bits, 1);
  Values operands = joinWords(e, {expected}, words);
  llvm::append_range(operands, joinWords(e, {value}, words));
  if (bits >= 16) {
    Atomic used = atomic; // there is no `red` of this kind
    used.isUsed = true;
    return splitWords(
        e,
        instruction(e, used, "cas.b" + std::to_string(bits), words, address, operands, predicate),
        words, type, 1);
  }
  llvm::Type *byte = b.getInt8Ty();
  return e.when(predicate, {llvm::PoisonValue::get(type)}, [&]() -> Values {
    llvm::Value *pair = b.CreateAtomicCmpXchg(
        address.pointer(e), b.CreateTrunc(operands[0], byte), b.CreateTrunc(operands[1], byte),
        llvm::Align(1), llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic,
        syncScope(e, atomic.scope));
    return {b.CreateBitCast(b.CreateExtractValue(pair, 0), type)};
  });
}

void fence(Emitter &e, const Atomic &atomic) {
  if (atomic.isOrdered)
    return;
  if (atomic.scope != tile::MemScope::CTA) // there the barrier is enough
    e.ptx(e.b.getVoidTy(), ("fence.acq_rel." + scopeName(atomic.scope) + ";").str(), "~{memory}",
          {},
          /*sideEffects=*/true);
}

/// Sends the old values from the owners to all threads that hold a copy of the element.
void share(Emitter &e, RankedTensorType type, Operation *op, Values &values,
           const GlobalAccess &access, llvm::Value *owner) {
  for (unsigned reg = 0; reg < values.size(); ++reg)
    values[reg] = values[access.original(reg)];
  if (!owner)
    return;
  // Through shared memory, at every element's place in row-major order.
  llvm::Value *scratch = e.scratch(op);
  llvm::Type *element = values[0]->getType();
  auto place = [&](llvm::Value *memory, unsigned reg) {
    llvm::Value *index = e.i32(0);
    for (auto [at, size] : llvm::zip(e.coordinates(type, reg), type.getShape()))
      index = e.b.CreateAdd(e.b.CreateMul(index, e.i32(size)), at);
    return e.b.CreateGEP(element, memory, index);
  };
  e.when(owner, [&] {
    for (unsigned reg = 0; reg < values.size(); ++reg)
      if (access.original(reg) == reg)
        e.inBlocks(scratch, /*allBlocks=*/true,
                   [&](llvm::Value *memory) { e.b.CreateStore(values[reg], place(memory, reg)); });
  });
  e.barrier();
  for (unsigned reg = 0; reg < values.size(); ++reg)
    values[reg] = access.original(reg) == reg ? e.b.CreateLoad(element, place(scratch, reg))
                                              : values[access.original(reg)];
}

using OnGroup =
    llvm::function_ref<Values(llvm::ArrayRef<unsigned>, const Address &, llvm::Value *)>;

/// One thread does it, all learn the outcome. `result` is null where there is none.
void emitScalar(Emitter &e, Atomic &atomic, mlir::Value result, OnGroup run) {
  atomic.isOrdered = atomic.isLoad || atomic.isStore;
  if (atomic.releases())
    e.barrier();
  e.when(e.isFirstThread(), [&] {
    if (atomic.releases())
      fence(e, atomic);
    Values old = run({0}, {e.scalar(atomic.ptr)}, atomic.mask ? e.scalar(atomic.mask) : nullptr);
    if (atomic.acquires())
      fence(e, atomic);
    if (atomic.isUsed)
      e.inBlocks(e.scratch(atomic.op), /*allBlocks=*/true,
                 [&](llvm::Value *memory) { e.b.CreateStore(old[0], memory); });
  });
  if (atomic.isUsed || atomic.acquires())
    e.barrier();
  if (!result)
    return;
  llvm::Type *element = e.type(result.getType());
  e.set(result, {atomic.isUsed ? e.b.CreateLoad(element, e.scratch(atomic.op))
                               : llvm::cast<llvm::Value>(llvm::PoisonValue::get(element))});
}

void emitTensor(Emitter &e, Atomic &atomic, mlir::Value result, unsigned maxBytes, OnGroup run) {
  auto type = cast<RankedTensorType>(atomic.ptr.getType());
  GlobalAccess access(e, atomic.op, atomic.ptr, atomic.mask, maxBytes);
  llvm::Value *owner = e.owner(type);
  atomic.isOrdered = (atomic.isLoad || atomic.isStore) && access.groups().size() == 1;
  if (atomic.releases()) {
    e.barrier();
    fence(e, atomic);
  }
  Values values;
  if (result)
    values.assign(e.registerCount(type), llvm::PoisonValue::get(e.type(result.getType())));
  for (const auto &group : access.groups()) {
    llvm::Value *mask = atomic.mask ? e.get(atomic.mask)[group[0]] : nullptr;
    Values old = run(group, access.address(group[0]), both(e, mask, owner));
    if (atomic.isUsed)
      for (auto [reg, value] : llvm::zip_equal(group, old))
        values[reg] = value;
  }
  if (atomic.acquires())
    fence(e, atomic);
  if (atomic.isUsed)
    share(e, type, atomic.op, values, access, owner);
  if (atomic.acquires() && !(atomic.isUsed && owner)) // `share` has met already
    e.barrier();
  if (result)
    e.set(result, values);
}

void emitAtomicOp(Emitter &e, Atomic &atomic, mlir::Value result, unsigned maxBytes, OnGroup run) {
  if (isa<RankedTensorType>(atomic.ptr.getType()))
    emitTensor(e, atomic, result, maxBytes, run);
  else
    emitScalar(e, atomic, result, run);
}

/// A load or store of neighbouring elements, four at most. Each element is a word of its own:
/// accesses of different sizes to one place are not ordered. Gives what a load has read.
Values accessElements(Emitter &e, const Atomic &atomic, llvm::Type *type, unsigned count,
                      const Address &address, llvm::ArrayRef<llvm::Value *> stored,
                      llvm::Value *predicate) {
  Words words(type->isPointerTy() ? 64 : unsigned(type->getPrimitiveSizeInBits()), 1);
  words.count = count;
  Atomic form = atomic;
  form.isUsed = atomic.isLoad;
  Values operands = atomic.isStore ? joinWords(e, stored, words) : Values();
  Values loaded = instruction(e, form, words.suffix(), words, address, operands, predicate);
  return atomic.isUsed ? splitWords(e, loaded, words, type, count) : Values();
}

/// `stored` is null for a load.
void emitAccess(Emitter &e, tile::Atomic op, mlir::Value stored) {
  Atomic atomic(op);
  Type element = cast<tile::PtrType>(tile::elementOf(op.getPtr().getType())).getPointee();
  unsigned maxBytes = std::min(16u, 4 * tile::sizeInBytes(element));
  emitAtomicOp(e, atomic, op.getSeen(), maxBytes,
               [&](llvm::ArrayRef<unsigned> group, const Address &address, llvm::Value *predicate) {
                 Values elements;
                 for (unsigned reg : group)
                   if (stored)
                     elements.push_back(e.get(stored)[reg]);
                 return accessElements(e, atomic, e.type(element), group.size(), address, elements,
                                       predicate);
               });
}

} // namespace

bool emitAtomic(Emitter &e, Operation *op) {
  if (isa<tile::AtomicLoadOp>(op))
    return emitAccess(e, cast<tile::Atomic>(op), mlir::Value()), true;
  if (auto store = dyn_cast<tile::AtomicStoreOp>(op))
    return emitAccess(e, cast<tile::Atomic>(op), store.getValue()), true;
  if (auto rmw = dyn_cast<tile::AtomicRMWOp>(op)) {
    Atomic atomic(cast<tile::Atomic>(op));
    llvm::Type *type = e.type(rmw.getValue().getType());
    unsigned bytes = tile::sizeInBytes(tile::elementOf(rmw.getValue().getType()));
    // Sums of floats are made several at a time.
    unsigned maxBytes = bytes;
    if (rmw.getKind() == AtomicKind::FAdd) {
      bool wide = e.options.sm >= 90 && e.options.ptxVersion >= 81;
      if (type->isHalfTy() || (type->isBFloatTy() && e.options.sm >= 90))
        maxBytes = wide ? 16 : 4;
      else if (type->isFloatTy() && wide)
        maxBytes = 16;
    }
    emitAtomicOp(
        e, atomic, rmw.getResult(), maxBytes,
        [&](llvm::ArrayRef<unsigned> group, const Address &address, llvm::Value *predicate) {
          Values elements;
          for (unsigned reg : group)
            elements.push_back(e.get(rmw.getValue())[reg]);
          return modify(e, atomic, rmw.getKind(), address, elements, predicate);
        });
    return true;
  }
  if (auto cas = dyn_cast<tile::AtomicCASOp>(op)) {
    Atomic atomic(cast<tile::Atomic>(op));
    emitAtomicOp(
        e, atomic, cas.getResult(), tile::sizeInBytes(tile::elementOf(cas.getValue().getType())),
        [&](llvm::ArrayRef<unsigned> group, const Address &address, llvm::Value *predicate) {
          return compareAndSwap(e, atomic, address, e.get(cas.getCmp())[group[0]],
                                e.get(cas.getValue())[group[0]], predicate);
        });
    return true;
  }
  return false;
}

} // namespace nereid::nvidia
