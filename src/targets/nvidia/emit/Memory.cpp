// Loads and stores of global memory.
//
// Consecutive elements of a thread go in one access of up to 16 bytes. Where nothing is masked and
// no hint is given it is an instruction of LLVM's, which knows more about those; otherwise inline
// PTX, predicated: a masked load starts with its registers at `other`.
#include "targets/nvidia/emit/Words.h"

using namespace mlir;

namespace nereid::nvidia {
llvm::Value *policyOf(Emitter &e, tile::CacheModifier cache, tile::EvictionPolicy evict) {
  if (cache != tile::CacheModifier::None || evict == tile::EvictionPolicy::Normal)
    return nullptr;
  return e.hoisted([&] {
    bool first = evict == tile::EvictionPolicy::EvictFirst;
    return e.ptx(e.b.getInt64Ty(),
                 first ? "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;"
                       : "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;",
                 "=l", {}, /*sideEffects=*/false);
  });
}

namespace {

/// The value of a constant i1; nothing when it is none.
std::optional<bool> known(llvm::Value *condition) {
  if (auto *constant = dyn_cast_or_null<llvm::ConstantInt>(condition))
    return constant->isOne();
  return std::nullopt;
}

/// What stands between "ld.global" (or "st.global") and its type.
std::string hints(tile::CacheModifier cache, tile::EvictionPolicy evict) {
  using tile::CacheModifier;
  switch (cache) {
  case CacheModifier::None:
    break;
  case CacheModifier::CA:
    return ".ca";
  case CacheModifier::CG:
    return ".cg";
  case CacheModifier::WB:
    return ".wb";
  case CacheModifier::CS:
    return ".cs";
  case CacheModifier::WT:
    return ".wt";
  case CacheModifier::CV:
    return ".cv";
  }
  // Hints for both levels of the cache; the second is an operand made by `policyOf`.
  switch (evict) {
  case tile::EvictionPolicy::Normal:
    return "";
  case tile::EvictionPolicy::EvictFirst:
    return ".L1::evict_first.L2::cache_hint";
  case tile::EvictionPolicy::EvictLast:
    return ".L1::evict_last.L2::cache_hint";
  }
  llvm_unreachable("an unknown policy");
}

/// One load by inline PTX: words, which are `otherwise` where `predicate` is false.
Values loadWords(Emitter &e, const Words &words, const Address &address, StringRef modifiers,
                 llvm::Value *predicate, llvm::ArrayRef<llvm::Value *> otherwise,
                 llvm::Value *policy) {
  std::string constraints;
  Values args;
  for (unsigned i = 0; i < words.count; ++i)
    constraints += std::string(i ? "," : "") + "=" + words.constraint();
  unsigned next = words.count;
  if (predicate)
    for (unsigned i = 0; i < words.count; ++i, ++next) {
      constraints += "," + std::to_string(i);
      args.push_back(otherwise[i]);
    }
  unsigned addressAt = next++;
  constraints += ",l";
  args.push_back(address.base);
  std::string text;
  if (predicate) {
    text = "@$" + std::to_string(next++) + " ";
    constraints += ",b";
    args.push_back(predicate);
  }
  text += ("ld" + modifiers + "." + words.suffix() + " " + words.operands(0) + ", " +
           addressText(address, addressAt))
              .str();
  if (policy) {
    text += ", $" + std::to_string(next++);
    constraints += ",l";
    args.push_back(policy);
  }
  text += ";";
  llvm::Type *word = e.intType(words.registerBits());
  llvm::Type *type = word;
  if (words.count > 1)
    type =
        llvm::StructType::get(e.b.getContext(), llvm::SmallVector<llvm::Type *>(words.count, word));
  llvm::Value *result = e.ptx(type, text, constraints, args, /*sideEffects=*/true);
  if (words.count == 1)
    return {result};
  Values values;
  for (unsigned i = 0; i < words.count; ++i)
    values.push_back(e.b.CreateExtractValue(result, i));
  return values;
}

void storeWords(Emitter &e, const Words &words, llvm::ArrayRef<llvm::Value *> values,
                const Address &address, StringRef modifiers, llvm::Value *predicate,
                llvm::Value *policy) {
  std::string constraints = "l";
  Values args = {address.base};
  for (llvm::Value *value : values) {
    constraints += std::string(",") + words.constraint();
    args.push_back(value);
  }
  unsigned next = 1 + words.count;
  std::string text;
  if (predicate) {
    text = "@$" + std::to_string(next++) + " ";
    constraints += ",b";
    args.push_back(predicate);
  }
  text += ("st.global" + modifiers + "." + words.suffix() + " " + addressText(address, 0) + ", " +
           words.operands(1))
              .str();
  if (policy) {
    text += ", $" + std::to_string(next++);
    constraints += ",l";
    args.push_back(policy);
  }
  text += ";";
  e.ptx(e.b.getVoidTy(), text, constraints, args, /*sideEffects=*/true);
}

/// Words as one value for LLVM's own loads and stores.
llvm::Type *wordsType(Emitter &e, const Words &words) {
  llvm::Type *word = e.intType(words.bits);
  return words.count == 1 ? word : llvm::FixedVectorType::get(word, words.count);
}

unsigned elementBits(mlir::Type ptr) {
  return 8 * tile::sizeInBytes(cast<tile::PtrType>(tile::elementOf(ptr)).getPointee());
}

/// LLVM's alignment of an access: its whole size when it is a vector (the analysis says so), the
/// element's otherwise.
llvm::Align alignOf(const GlobalAccess &access, unsigned bits) {
  return llvm::Align(access.elements() * bits / 8);
}

void emitLoad(Emitter &e, tile::LoadOp load) {
  llvm::IRBuilder<> &b = e.b;
  GlobalAccess access(e, load, load.getPtr(), load.getMask());
  llvm::Type *element = e.type(load.getType());
  unsigned bits = elementBits(load.getPtr().getType());
  Words words(bits, access.elements());
  bool isVolatile = load.getIsVolatile();
  std::string modifiers =
      isVolatile ? ".volatile.global" : ".global" + hints(load.getCache(), load.getEvict());
  llvm::Value *policy = isVolatile ? nullptr : policyOf(e, load.getCache(), load.getEvict());
  bool plain = modifiers == ".global" || isVolatile;

  Values results(e.registerCount(load.getType()), nullptr);
  for (const auto &group : access.groups()) {
    Address address = access.address(group[0]);
    llvm::Value *predicate = load.getMask() ? e.get(load.getMask())[group[0]] : nullptr;
    Values other;
    if (predicate)
      for (unsigned reg : group)
        other.push_back(load.getOther() ? e.get(load.getOther())[reg]
                                        : llvm::Constant::getNullValue(element));
    if (auto value = known(predicate)) {
      if (!*value) {
        for (auto [reg, value] : llvm::zip(group, other))
          results[reg] = value;
        continue;
      }
      predicate = nullptr;
    }
    Values loaded;
    if (!predicate && plain) {
      llvm::Value *all = b.CreateAlignedLoad(wordsType(e, words), address.pointer(e),
                                             alignOf(access, bits), isVolatile);
      if (words.count == 1)
        loaded = {all};
      else
        for (unsigned i = 0; i < words.count; ++i)
          loaded.push_back(b.CreateExtractElement(all, uint64_t(i)));
    } else {
      loaded = loadWords(e, words, address, modifiers, predicate,
                         predicate ? joinWords(e, other, words) : Values(), policy);
    }
    for (auto [reg, value] :
         llvm::zip_equal(group, splitWords(e, loaded, words, element, group.size())))
      results[reg] = value;
  }
  for (unsigned reg = 0; reg < results.size(); ++reg)
    results[reg] = results[access.original(reg)];
  e.set(load.getResult(), results);
}

void emitStore(Emitter &e, tile::StoreOp store) {
  llvm::IRBuilder<> &b = e.b;
  auto tensor = dyn_cast<RankedTensorType>(store.getPtr().getType());
  GlobalAccess access(e, store, store.getPtr(), store.getMask());
  unsigned bits = elementBits(store.getPtr().getType());
  Words words(bits, access.elements());
  std::string modifiers = hints(store.getCache(), store.getEvict());
  llvm::Value *policy = policyOf(e, store.getCache(), store.getEvict());
  // Of the threads that hold an element one stores it.
  llvm::Value *owner = tensor ? e.owner(tensor) : e.isFirstThread();
  for (const auto &group : access.groups()) {
    Address address = access.address(group[0]);
    llvm::Value *predicate = store.getMask() ? e.get(store.getMask())[group[0]] : nullptr;
    if (auto value = known(predicate)) {
      if (!*value)
        continue;
      predicate = nullptr;
    }
    predicate = both(e, predicate, owner);
    Values elements;
    for (unsigned reg : group)
      elements.push_back(e.get(store.getValue())[reg]);
    Values values = joinWords(e, elements, words);
    if (predicate || !modifiers.empty()) {
      storeWords(e, words, values, address, modifiers, predicate, policy);
      continue;
    }
    llvm::Value *all = b.CreateTrunc(values[0], e.intType(words.bits));
    if (words.count > 1) {
      all = llvm::PoisonValue::get(wordsType(e, words));
      for (auto [i, value] : llvm::enumerate(values))
        all = b.CreateInsertElement(all, value, uint64_t(i));
    }
    b.CreateAlignedStore(all, address.pointer(e), alignOf(access, bits));
  }
}

} // namespace

bool emitMemory(Emitter &e, Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    emitLoad(e, load);
  else if (auto store = dyn_cast<tile::StoreOp>(op))
    emitStore(e, store);
  else
    return false;
  return true;
}

} // namespace nereid::nvidia
