#include "gpu/emit/Emitter.h"

#include "gpu/emit/DebugInfo.h"
#include "gpu/layouts/AccessWidth.h"

#include "llvm/Support/Allocator.h"
#include "llvm/Support/MathExtras.h"

#include <bit>

using namespace mlir;

namespace nereid::gpu {

using layout::Axis;

namespace {

/// The part of a layout's coordinates that lane and warp determine.
struct ThreadPlaces {
  Values base;                          ///< an i32 per dimension
  llvm::SmallVector<uint32_t, 4> masks; ///< the bits that may be set in it
};

/// What is emitted once for all warps that run together.
struct Region {
  unsigned firstWarp = 0, warps = 4, barrier = 0;
  llvm::BasicBlock *prologue = nullptr; ///< dominates the region; ends in a branch
  llvm::Value *thread = nullptr, *lane = nullptr, *warp = nullptr, *uniformWarp = nullptr;
  llvm::DenseMap<Attribute, ThreadPlaces> places;
  llvm::DenseMap<uint32_t, llvm::Value *> owners; ///< by the free bits of the thread's index
};

std::string describe(Location location) {
  if (auto line = location->findInstanceOf<FileLineColLoc>())
    return (line.getFilename().getValue() + ":" + llvm::Twine(line.getLine())).str();
  return "";
}

} // namespace

struct Emitter::State {
  State(llvm::Module &module, bool lineInfo) : debug(module, lineInfo) {}

  llvm::BumpPtrAllocator arena;
  llvm::DenseMap<mlir::Value, llvm::ArrayRef<llvm::Value *>> values;
  llvm::DenseMap<Operation *, std::unique_ptr<transforms::IntegerAnalysis>> analyses;
  llvm::SmallVector<std::unique_ptr<Region>, 2> regions;
  llvm::Function *function = nullptr;
  llvm::GlobalVariable *shared = nullptr;
  llvm::StringMap<llvm::GlobalVariable *> strings;
  llvm::DenseMap<Operation *, llvm::Function *> functions;
  llvm::SmallVector<func::FuncOp> toEmit;
  unsigned kernelWarps = 4, extraWarps = 0, blocks = 1;
  llvm::BasicBlock *furtherWarps = nullptr; ///< where those of other parts begin
  DebugInfo debug;
  llvm::Value *globalScratch = nullptr, *programs = nullptr;
  llvm::AllocaInst *sendings = nullptr;           ///< how many there have been
  llvm::SmallVector<llvm::Value *, 4> tensorMaps; ///< their addresses
  std::optional<std::string> error;

  Region &region() { return *regions.back(); }
};

Emitter::Emitter(func::FuncOp kernel, const EmitOptions &options, llvm::Module &module)
    : b(module.getContext()), options(options), module(module), kernel(kernel),
      state(std::make_unique<State>(module, options.lineInfo)) {
  if (auto warps = kernel->getAttrOfType<IntegerAttr>("ngpu.num_warps"))
    state->kernelWarps = warps.getInt();
  state->blocks = ngpu::blockCount(kernel);
  if (ngpu::WarpSpecializeOp parts = ngpu::warpSpecializeOf(kernel))
    state->extraWarps = ngpu::furtherWarps(parts).count;
  llvm::FastMathFlags flags;
  flags.setAllowContract(options.fpFusion);
  b.setFastMathFlags(flags);
}

Emitter::~Emitter() = default;

llvm::BasicBlock *Emitter::furtherWarps() {
  return std::exchange(state->furtherWarps, nullptr);
}

unsigned Emitter::launchedWarps() const {
  return state->kernelWarps + state->extraWarps;
}

//===--- values
//-----------------------------------------------------------------------------------===//

unsigned Emitter::registerCount(mlir::Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? ngpu::registerCount(tensor) : 1;
}

llvm::ArrayRef<llvm::Value *> Emitter::get(mlir::Value value) const {
  auto found = state->values.find(value);
  if (found != state->values.end())
    return found->second;
  auto *self = const_cast<Emitter *>(this);
  self->fail(value.getDefiningOp(), "internal error: a value is used before it is computed");
  self->set(value, Values(registerCount(value.getType()),
                          llvm::PoisonValue::get(self->type(value.getType()))));
  return state->values.find(value)->second;
}

llvm::Value *Emitter::scalar(mlir::Value value) const {
  auto registers = get(value);
  assert(registers.size() == 1 && "a scalar has one register");
  return registers[0];
}

void Emitter::set(mlir::Value value, llvm::ArrayRef<llvm::Value *> registers) {
  assert((failed() || registers.size() == registerCount(value.getType())) &&
         "one value per register");
  state->values[value] = registers.copy(state->arena);
}

llvm::Type *Emitter::type(mlir::Type source) {
  mlir::Type element = tile::elementOf(source);
  if (isa<ngpu::BufferType>(element))
    return b.getPtrTy(3);
  if (isa<ngpu::TensorMapType>(element))
    return b.getPtrTy();
  if (auto pointer = dyn_cast<tile::PtrType>(element))
    return b.getPtrTy(pointer.getAddressSpace());
  if (isa<IndexType>(element))
    return b.getInt64Ty();
  if (auto integer = dyn_cast<IntegerType>(element))
    return b.getIntNTy(integer.getWidth());
  if (element.isF16())
    return b.getHalfTy();
  if (element.isBF16())
    return b.getBFloatTy();
  if (element.isF32())
    return b.getFloatTy();
  if (element.isF64())
    return b.getDoubleTy();
  return b.getInt8Ty(); // 8-bit floats
}

llvm::IntegerType *Emitter::intType(unsigned bits) {
  return b.getIntNTy(bits);
}

llvm::ConstantInt *Emitter::i32(int64_t value) {
  return llvm::ConstantInt::get(b.getInt32Ty(), value, /*IsSigned=*/true,
                                /*ImplicitTrunc=*/true);
}

llvm::ConstantInt *Emitter::i64(int64_t value) {
  return llvm::ConstantInt::get(b.getInt64Ty(), value, /*IsSigned=*/true);
}

const transforms::IntegerAnalysis &Emitter::integers(Operation *op) {
  Operation *function = op->getParentOfType<func::FuncOp>();
  auto &analysis = state->analyses[function];
  if (!analysis)
    analysis = std::make_unique<transforms::IntegerAnalysis>(addressAnalysis(function));
  return *analysis;
}

//===--- places
//-----------------------------------------------------------------------------------===//

unsigned Emitter::warpCount() const {
  return state->region().warps;
}

unsigned Emitter::blockCount() const {
  return state->blocks;
}

llvm::Value *Emitter::hoisted(llvm::function_ref<llvm::Value *()> body) {
  llvm::IRBuilder<>::InsertPointGuard guard(b);
  b.SetInsertPoint(state->region().prologue->getTerminator());
  b.SetCurrentDebugLocation(llvm::DebugLoc());
  return body();
}

unsigned Emitter::threadCount() const {
  return options.machine.lanes * warpCount();
}

unsigned Emitter::laneBits() const {
  return llvm::Log2_32(options.machine.lanes);
}

llvm::Value *Emitter::threadId() {
  Region &region = state->region();
  if (!region.thread)
    region.thread = hoisted([&]() -> llvm::Value * {
      unsigned lanes = options.machine.lanes;
      unsigned ofBlock = lanes * launchedWarps() / blockCount();
      llvm::Value *index = threadIndex(ofBlock);
      if (blockCount() > 1)
        index = b.CreateOr(b.CreateShl(blockRank(), llvm::Log2_32(ofBlock), "", /*HasNUW=*/true,
                                       /*HasNSW=*/true),
                           index, "", /*IsDisjoint=*/true);
      return region.firstWarp ? b.CreateNUWSub(index, i32(region.firstWarp * lanes)) : index;
    });
  return region.thread;
}

llvm::Value *Emitter::laneId() {
  Region &region = state->region();
  if (!region.lane) {
    llvm::Value *thread = threadId();
    region.lane = hoisted([&] { return b.CreateAnd(thread, options.machine.lanes - 1); });
  }
  return region.lane;
}

llvm::Value *Emitter::warpId() {
  Region &region = state->region();
  if (region.warps == 1)
    return i32(0);
  if (!region.warp) {
    llvm::Value *thread = threadId();
    region.warp = hoisted([&] { return b.CreateLShr(thread, laneBits()); });
  }
  return region.warp;
}

llvm::Value *Emitter::uniformWarpId() {
  Region &region = state->region();
  if (region.warps == 1)
    return i32(0);
  if (!region.uniformWarp) {
    llvm::Value *warp = warpId();
    region.uniformWarp = hoisted([&] { return shuffleIndex(warp, i32(0)); });
  }
  return region.uniformWarp;
}

llvm::Value *Emitter::linear(llvm::ArrayRef<uint32_t> ofLane, llvm::ArrayRef<uint32_t> ofWarp) {
  // Lane and warp are the low and high bits of one index. All its bits that move by the same
  // distance move together.
  llvm::SmallVector<uint32_t, 10> columns(ofLane.begin(), ofLane.end());
  columns.resize(laneBits(), 0);
  columns.append(ofWarp.begin(), ofWarp.end());
  llvm::SmallDenseMap<int, uint32_t, 8> masks; // distance (left positive) → bits of the index
  llvm::SmallVector<int, 8> distances;
  for (auto [bit, column] : llvm::enumerate(columns))
    for (uint32_t rest = column; rest; rest &= rest - 1) {
      int distance = std::countr_zero(rest) - int(bit);
      if (masks.try_emplace(distance, 0).second)
        distances.push_back(distance);
      masks[distance] |= 1u << bit;
    }
  llvm::Value *result = nullptr;
  uint32_t used = 0;
  uint32_t everyBit = threadCount() - 1;
  for (int distance : distances) {
    uint32_t mask = masks[distance];
    llvm::Value *part = threadId();
    // Shifting right drops low bits, which then need no mask.
    uint32_t dropped = distance < 0 ? (1u << -distance) - 1 : 0;
    if (everyBit & ~dropped & ~mask)
      part = b.CreateAnd(part, mask);
    if (distance > 0)
      part = b.CreateShl(part, distance, "", /*HasNUW=*/true, /*HasNSW=*/true);
    else if (distance < 0)
      part = b.CreateLShr(part, -distance);
    uint32_t bits = distance >= 0 ? mask << distance : mask >> -distance;
    if (!result)
      result = part;
    else if (used & bits)
      result = b.CreateXor(result, part);
    else
      result = b.CreateOr(result, part, "", /*IsDisjoint=*/true);
    used |= bits;
  }
  return result ? result : i32(0);
}

static ThreadPlaces threadPlaces(Emitter &e, const layout::LinearLayout &layout) {
  ThreadPlaces places;
  for (unsigned d = 0; d < layout.rank(); ++d) {
    llvm::SmallVector<uint32_t, 8> lane, warp;
    uint32_t mask = 0;
    for (const auto &basis : layout.bases(Axis::Lane))
      mask |= lane.emplace_back(basis[d]);
    for (const auto &basis : layout.bases(Axis::Warp))
      mask |= warp.emplace_back(basis[d]);
    places.base.push_back(e.linear(lane, warp));
    places.masks.push_back(mask);
  }
  return places;
}

Values Emitter::coordinates(RankedTensorType type, unsigned reg) {
  auto attribute = ngpu::layoutOf(type);
  Region &region = state->region();
  auto found = region.places.find(attribute);
  if (found == region.places.end()) {
    threadId(); // in place before what uses it
    ThreadPlaces places;
    hoisted([&]() -> llvm::Value * {
      places = threadPlaces(*this, attribute.getLayout());
      return nullptr;
    });
    found = region.places.try_emplace(attribute, std::move(places)).first;
  }
  const ThreadPlaces &places = found->second;
  auto place = ngpu::registerPlace(type, reg);
  Values result;
  for (unsigned d = 0; d < places.base.size(); ++d) {
    llvm::Value *at = places.base[d];
    int32_t add = place.repeatOffset[d];
    if (places.masks[d] & uint32_t(place.core[d]))
      at = b.CreateXor(at, place.core[d]);
    else
      add += place.core[d];
    if (add)
      at = b.CreateAdd(at, i32(add), "", /*HasNUW=*/true, /*HasNSW=*/true);
    result.push_back(at);
  }
  return result;
}

llvm::Value *Emitter::owner(RankedTensorType type) {
  const auto &layout = ngpu::layoutOf(type).getLayout();
  uint32_t freeBits = layout.freeBits(Axis::Lane) | layout.freeBits(Axis::Warp) << laneBits();
  // Bits of the thread's index that the layout does not have at all are free as well.
  uint32_t known =
      ((1u << layout.bits(Axis::Lane)) - 1) | (((1u << layout.bits(Axis::Warp)) - 1) << laneBits());
  freeBits |= (threadCount() - 1) & ~known;
  if (!freeBits)
    return nullptr;
  llvm::Value *&owner = state->region().owners[freeBits];
  if (!owner) {
    llvm::Value *thread = threadId();
    owner = hoisted([&] { return b.CreateICmpEQ(b.CreateAnd(thread, freeBits), i32(0)); });
  }
  return owner;
}

llvm::Value *Emitter::isFirstThread() {
  if (elementOwner)
    return *elementOwner;
  llvm::Value *&owner = state->region().owners[~0u >> 1];
  if (!owner) {
    llvm::Value *thread = threadId();
    owner = hoisted([&] { return b.CreateICmpEQ(thread, i32(0)); });
  }
  return owner;
}

bool Emitter::isRedundantRegister(RankedTensorType type, unsigned reg) {
  const auto &layout = ngpu::layoutOf(type).getLayout();
  return (reg & layout.freeBits(Axis::Register)) != 0;
}

void Emitter::beginRegion(unsigned firstWarp, unsigned warps, unsigned barrier) {
  auto region = std::make_unique<Region>();
  region->firstWarp = firstWarp;
  region->warps = warps;
  region->barrier = barrier;
  region->prologue = block("prologue");
  llvm::BasicBlock *body = block("body");
  if (b.GetInsertBlock())
    b.CreateBr(region->prologue);
  b.SetInsertPoint(region->prologue);
  b.CreateBr(body);
  b.SetInsertPoint(body);
  state->regions.push_back(std::move(region));
}

void Emitter::endRegion() {
  state->regions.pop_back();
}

//===--- shared memory
//----------------------------------------------------------------------------===//

llvm::Value *Emitter::shared(uint32_t bytes) {
  if (!state->shared) {
    auto *array = llvm::ArrayType::get(b.getInt8Ty(), 0);
    state->shared = new llvm::GlobalVariable(
        module, array, /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage, nullptr,
        "shared_memory", nullptr, llvm::GlobalValue::NotThreadLocal, 3);
    // Required by the 128-byte swizzle of the matrix units and the copy engine.
    state->shared->setAlignment(llvm::Align(1024));
  }
  if (!bytes)
    return state->shared;
  return llvm::ConstantExpr::getGetElementPtr(
      b.getInt8Ty(), state->shared, llvm::ArrayRef<llvm::Constant *>(i32(bytes)),
      llvm::GEPNoWrapFlags::inBounds() | llvm::GEPNoWrapFlags::noUnsignedWrap());
}

llvm::Value *Emitter::scratch(Operation *op) {
  if (std::optional<uint32_t> offset = ngpu::scratchOffset(op))
    return shared(*offset);
  fail(op,
       "internal error: no scratch memory has been allocated for " + op->getName().getStringRef());
  return shared(0);
}

llvm::Value *Emitter::globalScratch() {
  return state->globalScratch;
}

//===--- emitting
//---------------------------------------------------------------------------------===//

void Emitter::emitBlock(Block &body) {
  for (Operation &op : body.without_terminator()) {
    emitOp(&op);
    if (failed())
      return;
  }
}

void Emitter::emitOp(Operation *op) {
  b.SetCurrentDebugLocation(state->debug.at(op->getLoc()));
  if (emitElementwise(*this, op) || emitShape(*this, op) || emitRearrange(*this, op) ||
      emitControl(*this, op) || emitTargetOp(op) || emitMap(*this, op) || emitConvert(*this, op) ||
      emitShared(*this, op) || emitReduce(*this, op) || emitScan(*this, op) ||
      emitFmaDot(*this, op))
    return;
  fail(op, "internal error: nothing emits " + op->getName().getStringRef());
}

Values Emitter::inlineBody(Block &body, llvm::ArrayRef<llvm::Value *> args) {
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), args))
    set(argument, value);
  emitBlock(body);
  Values results;
  for (mlir::Value value : body.getTerminator()->getOperands())
    results.push_back(failed() ? llvm::PoisonValue::get(type(value.getType())) : scalar(value));
  return results;
}

Values Emitter::inlineCombiner(Block &body, llvm::ArrayRef<llvm::Value *> args,
                               llvm::Value *counts) {
  std::optional<llvm::Value *> before = std::exchange(elementOwner, counts);
  Values results = inlineBody(body, args);
  elementOwner = before;
  return results;
}

llvm::BasicBlock *Emitter::block(llvm::StringRef name) {
  return llvm::BasicBlock::Create(module.getContext(), name, state->function);
}

void Emitter::enter(llvm::BasicBlock *block) {
  if (block != b.GetInsertBlock())
    block->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(block);
}

void Emitter::when(llvm::Value *condition, llvm::function_ref<void()> body) {
  when(condition, {}, [&] {
    body();
    return Values();
  });
}

Values Emitter::when(llvm::Value *condition, llvm::ArrayRef<llvm::Value *> otherwise,
                     llvm::function_ref<Values()> body) {
  if (!condition)
    return body();
  llvm::BasicBlock *before = b.GetInsertBlock(), *inside = block("then"), *after = block("after");
  b.CreateCondBr(condition, inside, after);
  enter(inside);
  Values values = body();
  llvm::BasicBlock *end = b.GetInsertBlock();
  b.CreateBr(after);
  enter(after);
  for (auto [value, other] : llvm::zip_equal(values, otherwise)) {
    auto *phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, end);
    phi->addIncoming(other, before);
    value = phi;
  }
  return values;
}

void Emitter::barrier(bool allBlocks) {
  Region &region = state->region();
  if (allBlocks && blockCount() > 1)
    return barrierOfBlocks();
  if (region.warps == blockCount())
    return syncWarp();
  blockBarrier(region.barrier, region.warps == launchedWarps() ? 0 : region.warps);
}

Emitter::Sending Emitter::nextSending() {
  unsigned bytes = ngpu::sendBytes(kernel);
  if (!state->sendings) {
    llvm::IRBuilder<>::InsertPointGuard guard(b);
    llvm::BasicBlock &entry = state->function->getEntryBlock();
    b.SetInsertPoint(&entry, entry.begin());
    state->sendings = b.CreateAlloca(b.getInt32Ty());
    b.CreateStore(i32(0), state->sendings);
  }
  llvm::Value *number = b.CreateLoad(b.getInt32Ty(), state->sendings);
  b.CreateStore(b.CreateAdd(number, i32(1)), state->sendings);
  llvm::Value *odd = b.CreateAnd(number, 1);
  auto part = [&](uint32_t start, uint32_t size) {
    return b.CreateInBoundsGEP(b.getInt8Ty(), shared(start), b.CreateMul(odd, i32(size)));
  };
  return {part(ngpu::kSendBarrierBytes, bytes), part(0, 8),
          b.CreateAnd(b.CreateLShr(number, 1), 1)};
}

void Emitter::inBlocks(llvm::Value *address, bool allBlocks,
                       llvm::function_ref<void(llvm::Value *)> store) {
  if (!allBlocks || blockCount() == 1)
    return store(address);
  for (unsigned rank = 0; rank < blockCount(); ++rank)
    store(sharedOf(address, i32(rank)));
}

Values Emitter::toWords(llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (type->isPointerTy()) {
    value = b.CreatePtrToInt(value, intType(type->getPointerAddressSpace() == 3 ? 32 : 64));
    type = value->getType();
  }
  unsigned bits = type->getPrimitiveSizeInBits();
  if (!type->isIntegerTy())
    value = b.CreateBitCast(value, intType(bits));
  if (bits <= 32)
    return {b.CreateZExt(value, b.getInt32Ty())};
  Values words;
  for (unsigned at = 0; at < bits; at += 32)
    words.push_back(b.CreateTrunc(at ? b.CreateLShr(value, at) : value, b.getInt32Ty()));
  return words;
}

llvm::Value *Emitter::fromWords(llvm::ArrayRef<llvm::Value *> words, llvm::Type *type) {
  unsigned bits = type->isPointerTy() ? (type->getPointerAddressSpace() == 3 ? 32 : 64)
                                      : unsigned(type->getPrimitiveSizeInBits());
  llvm::Value *value;
  if (bits <= 32) {
    value = b.CreateTrunc(words[0], intType(bits));
  } else {
    value = b.CreateZExt(words[0], intType(bits));
    for (unsigned i = 1; i < words.size(); ++i)
      value = b.CreateOr(value, b.CreateShl(b.CreateZExt(words[i], intType(bits)), 32 * i), "",
                         /*IsDisjoint=*/true);
  }
  if (type->isPointerTy())
    return b.CreateIntToPtr(value, type);
  return b.CreateBitCast(value, type);
}

static llvm::Value *shuffle(Emitter &e, Shuffle how, llvm::Value *value, llvm::Value *amount) {
  Values words = e.toWords(value);
  for (llvm::Value *&word : words)
    word = e.shuffleWord(how, word, amount);
  return e.fromWords(words, value->getType());
}

llvm::Value *Emitter::shuffleXor(llvm::Value *value, unsigned laneMask) {
  return shuffle(*this, Shuffle::Xor, value, i32(laneMask));
}

llvm::Value *Emitter::shuffleIndex(llvm::Value *value, llvm::Value *lane) {
  return shuffle(*this, Shuffle::Index, value, lane);
}

llvm::Value *Emitter::shuffleUp(llvm::Value *value, unsigned delta) {
  return shuffle(*this, Shuffle::Up, value, i32(delta));
}

llvm::Value *Emitter::intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value *> args,
                                llvm::ArrayRef<llvm::Type *> overloads) {
  return b.CreateIntrinsic(id, overloads, args);
}

llvm::CallInst *Emitter::external(llvm::StringRef symbol, llvm::Type *result,
                                  llvm::ArrayRef<llvm::Value *> args) {
  usesLibrary = true;
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *arg : args)
    types.push_back(arg->getType());
  auto callee = module.getOrInsertFunction(
      symbol, llvm::FunctionType::get(result, types, /*isVarArg=*/false));
  return b.CreateCall(callee, args);
}

llvm::Value *Emitter::string(llvm::StringRef text) {
  llvm::GlobalVariable *&global = state->strings[text];
  if (!global) {
    auto *data = llvm::ConstantDataArray::getString(module.getContext(), text);
    global = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                      llvm::GlobalValue::InternalLinkage, data, "text", nullptr,
                                      llvm::GlobalValue::NotThreadLocal, 1);
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  }
  return b.CreateAddrSpaceCast(global, b.getPtrTy());
}

//===--- errors
//-----------------------------------------------------------------------------------===//

void Emitter::fail(Operation *op, const llvm::Twine &message) {
  if (state->error)
    return;
  std::string place = op ? describe(op->getLoc()) : "";
  state->error = place.empty() || message.str().starts_with("internal error")
                     ? message.str()
                     : place + ": " + message.str();
}

bool Emitter::failed() const {
  return state->error.has_value();
}

llvm::Error Emitter::takeError() {
  if (!state->error)
    return llvm::Error::success();
  return llvm::createStringError(*state->error);
}

//===--- functions
//--------------------------------------------------------------------------------===//

llvm::Function *Emitter::callee(func::FuncOp function) {
  llvm::Function *&result = state->functions[function];
  if (result)
    return result;
  // Every register is a parameter, and a member of the result.
  llvm::SmallVector<llvm::Type *> parameters, results;
  for (mlir::Type argument : function.getFunctionType().getInputs())
    parameters.append(registerCount(argument), type(argument));
  for (mlir::Type value : function.getFunctionType().getResults())
    results.append(registerCount(value), type(value));
  llvm::Type *returned = b.getVoidTy();
  if (!results.empty())
    returned = llvm::StructType::get(b.getContext(), results);
  result = llvm::Function::Create(llvm::FunctionType::get(returned, parameters, false),
                                  llvm::GlobalValue::InternalLinkage, function.getName(), module);
  result->addFnAttr(llvm::Attribute::NoInline);
  result->addFnAttr(llvm::Attribute::Convergent);
  result->addFnAttr(llvm::Attribute::NoUnwind);
  state->toEmit.push_back(function);
  return result;
}

static llvm::Align alignOf(func::FuncOp function, unsigned argument) {
  auto divisor = function.getArgAttrOfType<IntegerAttr>(argument, "tile.divisibility");
  uint64_t value = divisor ? divisor.getInt() : 1;
  return llvm::Align(std::min<uint64_t>(value ? value & -value : 1, 128));
}

/// How many tensor maps the launcher passes behind the other parameters.
static unsigned tensorMapCount(func::FuncOp kernel) {
  auto count = kernel->getAttrOfType<IntegerAttr>("ngpu.tensor_maps");
  return count ? unsigned(count.getInt()) : 0;
}

/// Which of them the launcher may leave out, a bit each.
static uint32_t optionalMaps(func::FuncOp kernel) {
  auto maps = kernel->getAttrOfType<IntegerAttr>("ngpu.optional_maps");
  return maps ? uint32_t(maps.getInt()) : 0;
}

llvm::Value *Emitter::programs() {
  return hoisted([&] { return b.CreatePtrToInt(state->programs, b.getInt32Ty()); });
}

llvm::Value *Emitter::tensorMap(unsigned number) {
  return state->tensorMaps[number];
}

void Emitter::prefetchMaps() {
  beginKernel(state->tensorMaps, optionalMaps(kernel));
}

void Emitter::emitFunctions() {
  auto emit = [&](func::FuncOp source, llvm::Function *function) {
    state->function = function;
    state->debug.beginFunction(*function, source.getLoc());
    b.SetCurrentDebugLocation(state->debug.at(source.getLoc()));
    b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function));
    bool isKernel = source == kernel;
    if (isKernel && state->extraWarps) {
      state->furtherWarps = block("further.warps");
      llvm::BasicBlock *own = block("own.warps");
      unsigned lanes = options.machine.lanes;
      llvm::Value *thread = threadIndex(lanes * launchedWarps());
      b.CreateCondBr(b.CreateICmpULT(thread, i32(lanes * state->kernelWarps)), own,
                     state->furtherWarps);
      enter(own);
    }
    beginRegion(0, state->kernelWarps, 0);
    unsigned at = 0;
    for (BlockArgument argument : source.getArguments()) {
      Values registers;
      for (unsigned i = 0; i < registerCount(argument.getType()); ++i) {
        llvm::Value *value = function->getArg(at++);
        if (isKernel && argument.getType().isInteger(1)) // a byte in the launch's parameters
          value = b.CreateTrunc(value, b.getInt1Ty());
        registers.push_back(value);
      }
      set(argument, registers);
    }
    state->globalScratch = isKernel ? function->getArg(at) : nullptr;
    state->programs = isKernel ? function->getArg(at + 1) : nullptr;
    state->tensorMaps.clear();
    for (unsigned i = 0; isKernel && i < tensorMapCount(kernel); ++i)
      state->tensorMaps.push_back(function->getArg(at + 2 + i));
    if (isKernel && !state->extraWarps)
      prefetchMaps();
    emitBlock(source.front());
    Values results;
    for (mlir::Value value : source.front().getTerminator()->getOperands())
      if (!failed())
        llvm::append_range(results, get(value));
    b.SetCurrentDebugLocation(state->debug.at(source.front().getTerminator()->getLoc()));
    if (function->getReturnType()->isVoidTy())
      b.CreateRetVoid();
    else if (!failed())
      b.CreateAggregateRet(results.data(), results.size());
    endRegion();
  };

  llvm::SmallVector<llvm::Type *> parameters;
  for (mlir::Type argument : kernel.getFunctionType().getInputs())
    parameters.push_back(argument.isInteger(1) ? b.getInt8Ty() : type(argument));
  parameters.append(2, b.getPtrTy(1));
  unsigned firstMap = parameters.size();
  parameters.append(tensorMapCount(kernel), b.getPtrTy());
  auto *entry =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), parameters, false),
                             llvm::GlobalValue::ExternalLinkage, kernel.getName(), module);
  entry->addFnAttr(llvm::Attribute::NoUnwind);
  for (auto [i, argument] : llvm::enumerate(kernel.getFunctionType().getInputs())) {
    if (auto name = kernel.getArgAttrOfType<StringAttr>(i, "tile.name"))
      entry->getArg(i)->setName(name.getValue());
    if (isa<tile::PtrType>(argument) && alignOf(kernel, i).value() > 1)
      entry->addParamAttr(i, llvm::Attribute::getWithAlignment(b.getContext(), alignOf(kernel, i)));
  }
  markKernel(*entry, firstMap);
  emit(kernel, entry);
  while (!state->toEmit.empty() && !failed()) {
    func::FuncOp next = state->toEmit.pop_back_val();
    emit(next, callee(next));
  }
  state->debug.finish();
}

} // namespace nereid::gpu
