#include "gpu/copies/TensorMaps.h"

#include "gpu/copies/OverlapStores.h"
#include "gpu/copies/TmaBox.h"
#include "layout/Constructors.h"
#include "transforms/LaunchNumber.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::gpu {

//===--- plans
//------------------------------------------------------------------------------------===//

namespace {

/// The argument behind a base.
BlockArgument argumentOf(Value base) {
  while (Operation *op = base.getDefiningOp())
    base = op->getOperand(0);
  return cast<BlockArgument>(base);
}

std::string nameOf(Value base) {
  BlockArgument arg = argumentOf(base);
  auto function = cast<func::FuncOp>(arg.getOwner()->getParentOp());
  auto name = function.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "tile.name");
  return name ? name.str() : std::string();
}

/// Signed integers only where a reduction compares them.
TensorMapElement elementOf(tile::MakeDescriptorOp desc) {
  Type type = cast<tile::DescType>(desc.getType()).getElementType();
  bool isSigned = llvm::any_of(desc->getUsers(), [](Operation *user) {
    auto reduce = dyn_cast<tile::DescReduceOp>(user);
    return reduce &&
           (reduce.getKind() == tile::AtomicKind::Max || reduce.getKind() == tile::AtomicKind::Min);
  });
  if (type.isF16())
    return TensorMapElement::Float16;
  if (type.isBF16())
    return TensorMapElement::BFloat16;
  if (type.isF32())
    return TensorMapElement::Float32;
  if (type.isF64())
    return TensorMapElement::Float64;
  switch (tile::sizeInBytes(type)) {
  case 1:
    return TensorMapElement::UInt8;
  case 2:
    return TensorMapElement::UInt16;
  case 4:
    return isSigned ? TensorMapElement::Int32 : TensorMapElement::UInt32;
  default:
    return isSigned ? TensorMapElement::Int64 : TensorMapElement::UInt64;
  }
}

std::optional<TensorMapPlan> planOf(tile::MakeDescriptorOp desc) {
  auto type = cast<tile::DescType>(desc.getType());
  TensorMapPlan plan;
  plan.elementBytes = tile::sizeInBytes(type.getElementType());
  plan.element = elementOf(desc);
  plan.padsNaN = type.getPadding() == tile::Padding::NaN;
  auto write = [](Value value, HostNumber &to) {
    std::optional<HostNumber> number = transforms::launchNumber(value);
    if (number)
      to = std::move(*number);
    return number.has_value();
  };
  bool fine = write(desc.getBase(), plan.base);
  for (Value size : desc.getShape())
    fine = fine && write(size, plan.shape.emplace_back());
  for (Value stride : desc.getStrides())
    fine = fine && write(stride, plan.strides.emplace_back());
  if (!fine)
    return std::nullopt;
  plan.name = nameOf(desc.getBase());
  TmaBox box = tmaBox(copyBufferOf(type));
  plan.swizzleBytes = box.swizzleBytes;
  plan.box.assign(box.box.begin(), box.box.end());
  return plan;
}

} // namespace

/// `ngpu.optional_maps` has a bit for each, and is not negative.
constexpr size_t maxOptionalMaps = 31;

ngpu::BufferType copyBufferOf(tile::DescType desc) {
  MLIRContext *context = desc.getContext();
  unsigned bits = 8 * tile::sizeInBytes(desc.getElementType());
  return ngpu::BufferType::get(context, desc.getShape(), desc.getElementType(),
                               ngpu::LayoutAttr::get(context, tmaLayout(desc.getShape(), bits)));
}

ngpu::BufferType mbarrierType(MLIRContext *context) {
  auto layout = layout::sharedSwizzled({1}, {0}, 64, 0);
  return ngpu::BufferType::get(context, {1}, IntegerType::get(context, 64),
                               ngpu::LayoutAttr::get(context, layout));
}

llvm::Expected<std::vector<TensorMapPlan>> planTensorMaps(func::FuncOp kernel,
                                                          const GpuOptions &options) {
  std::vector<TensorMapPlan> plans;
  uint32_t optional = 0;
  bool expand = false;
  Builder builder(kernel.getContext());
  kernel.walk([&](tile::MakeDescriptorOp desc) {
    std::optional<TensorMapPlan> plan;
    if (options.machine.tma && desc.getCopyEngine())
      plan = planOf(desc);
    if (plan && desc.getOptional() && plans.size() >= maxOptionalMaps)
      plan = std::nullopt;
    if (!plan) {
      desc.setCopyEngine(false);
      desc.setOptional(false);
      expand = true;
      return;
    }
    desc.setNumber(uint32_t(plans.size()));
    plan->optional = desc.getOptional();
    if (plan->optional)
      optional |= uint32_t(1) << plans.size();
    plans.push_back(std::move(*plan));
  });
  if (expand) {
    PassManager passes(kernel.getContext());
    passes.enableVerifier(options.verify);
    passes.addPass(transforms::createDescriptorsToPointers());
    passes.addPass(transforms::createCombine());
    if (failed(passes.run(kernel->getParentOfType<ModuleOp>())))
      return llvm::createStringError("internal error: descriptors could not be made pointers");
  }
  if (!plans.empty())
    kernel->setAttr("ngpu.tensor_maps", builder.getI32IntegerAttr(int32_t(plans.size())));
  if (optional)
    kernel->setAttr("ngpu.optional_maps", builder.getI32IntegerAttr(int32_t(optional)));
  return plans;
}

Value tensorMapOf(OpBuilder &builder, Value desc) {
  std::optional<uint32_t> number = desc.getDefiningOp<tile::MakeDescriptorOp>().getNumber();
  assert(number && "the maps have been planned");
  return ngpu::TensorMapOfOp::create(
      builder, desc.getLoc(), ngpu::TensorMapType::get(builder.getContext()), int32_t(*number));
}

bool followsWrites(Operation *access) {
  auto kernel = access->getParentOfType<func::FuncOp>();
  auto sharesLoop = [&](Operation *op) {
    for (Operation *around = access->getParentOp(); around != kernel;
         around = around->getParentOp())
      if (isa<LoopLikeOpInterface>(around) && around->isAncestor(op))
        return true;
    return false;
  };
  bool behind = false;
  return kernel
      .walk<WalkOrder::PreOrder>([&](Operation *op) {
        behind |= op == access;
        bool writes = isa<tile::StoreOp, tile::Atomic, tile::BarrierOp, func::CallOp>(op) ||
                      (isa<tile::ExternOp, tile::InlineAsmOp>(op) && !isMemoryEffectFree(op));
        return writes && (!behind || sharesLoop(op)) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

//===--- accesses
//---------------------------------------------------------------------------------===//

namespace {

/// A descriptor's accesses that may touch the same memory as another access of global memory must
/// be complete before it.
class Lowering {
public:
  Lowering(func::FuncOp kernel, const GpuOptions &options, MutableArrayRef<TensorMapPlan> plans)
      : kernel(kernel), options(options), plans(plans) {}

  /// True: some stores overlap with what follows them.
  bool run() {
    kernel.walk([&](tile::MakeDescriptorOp made) {
      if (made.getNumber())
        tensors[*made.getNumber()] = tensorOf(made.getResult());
    });
    bool overlapped = overlapStores(kernel, options, plans,
                                    [&](Operation *store) { return mayMeetAgain(store); });
    SmallVector<Operation *> accesses;
    kernel.walk([&](Operation *op) {
      if (auto mapped = dyn_cast<tile::DescMappedOp>(op)) {
        OpBuilder b(op);
        mapped.replaceAllUsesWith(
            ngpu::TensorMapMadeOp::create(b, op->getLoc(), tensorMapOf(b, mapped.getDesc()))
                .getResult());
        mapped.erase();
        return;
      }
      if (isa<tile::DescLoadOp, tile::DescStoreOp, tile::DescReduceOp>(op))
        accesses.push_back(op);
    });
    for (size_t i = 0; i < accesses.size();) {
      if (!isa<tile::DescLoadOp>(accesses[i])) {
        lowerStore(accesses[i++]);
        continue;
      }
      size_t end = groupEnd(accesses, i);
      SmallVector<tile::DescLoadOp, 4> group;
      for (; i < end; ++i)
        group.push_back(cast<tile::DescLoadOp>(accesses[i]));
      lowerLoads(group);
    }
    SmallVector<Operation *> made;
    kernel.walk([&](tile::MakeDescriptorOp desc) {
      if (desc->use_empty())
        made.push_back(desc);
    });
    for (Operation *op : made)
      op->erase();
    return overlapped;
  }

private:
  /// Loads of one block with nothing but pure operations between them that do not need the first
  /// ones' results are done together, where the last one stands.
  size_t groupEnd(ArrayRef<Operation *> accesses, size_t begin) {
    size_t end = begin + 1;
    llvm::SmallPtrSet<Operation *, 4> group{accesses[begin]};
    for (Operation *op = accesses[begin]->getNextNode(); op && end < accesses.size();
         op = op->getNextNode()) {
      if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(op); alloc && isCopyOf(alloc, group)) {
        group.insert(op); // is removed; its users need the group
        continue;
      }
      bool needsGroup = llvm::any_of(op->getOperands(), [&](Value operand) {
        return operand.getDefiningOp() && group.contains(operand.getDefiningOp());
      });
      if (needsGroup)
        break;
      if (op == accesses[end] && isa<tile::DescLoadOp>(op)) {
        group.insert(op);
        ++end;
      } else if (!isMemoryEffectFree(op) || op->getNumRegions()) {
        break;
      }
    }
    return end;
  }

  /// The buffer of a load, filled through registers: the engine fills it itself.
  static bool isCopyOf(ngpu::LocalAllocOp alloc, const llvm::SmallPtrSetImpl<Operation *> &group) {
    auto load = alloc.getSrc() ? alloc.getSrc().getDefiningOp<tile::DescLoadOp>() : nullptr;
    return load && group.contains(load) &&
           alloc.getType() == copyBufferOf(cast<tile::DescType>(load.getDesc().getType()));
  }

  void lowerLoads(MutableArrayRef<tile::DescLoadOp> group) {
    OpBuilder b(group.back());
    Location loc = group.back().getLoc();
    SmallVector<Value, 4> buffers;
    int64_t bytes = 0;
    for (tile::DescLoadOp load : group) {
      auto type = copyBufferOf(cast<tile::DescType>(load.getDesc().getType()));
      buffers.push_back(ngpu::LocalAllocOp::create(b, loc, type, Value(), IntegerAttr()));
      bytes += type.getBytes();
    }
    Value barrier =
        ngpu::LocalAllocOp::create(b, loc, mbarrierType(b.getContext()), Value(), IntegerAttr());
    ngpu::MBarrierInitOp::create(b, loc, barrier, 1);
    // The engine sees the mbarrier, and earlier accesses to the buffers are over.
    ngpu::FenceAsyncOp::create(b, loc, followsWrites(group.front()));
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
    ngpu::MBarrierExpectOp::create(b, loc, barrier, int32_t(bytes), Value());
    for (auto [load, buffer] : llvm::zip(group, buffers))
      ngpu::TmaLoadOp::create(b, loc, tensorMapOf(b, load.getDesc()), load.getCoords(), buffer,
                              barrier, Value(), Value(), Value(), load.getEvict());
    Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    ngpu::MBarrierWaitOp::create(b, loc, barrier, zero, Value());
    // All threads have finished waiting on the mbarrier before its bytes are reused.
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
    ngpu::MBarrierInvalOp::create(b, loc, barrier);
    for (auto [load, buffer] : llvm::zip(group, buffers))
      replace(b, load, buffer);
  }

  /// Copies of the result into a buffer of the same kind are the buffer itself.
  void replace(OpBuilder &b, tile::DescLoadOp load, Value buffer) {
    for (Operation *user : llvm::make_early_inc_range(load->getUsers())) {
      auto alloc = dyn_cast<ngpu::LocalAllocOp>(user);
      if (!alloc || alloc.getType() != buffer.getType())
        continue;
      alloc.replaceAllUsesWith(buffer);
      alloc.erase();
    }
    if (!load->use_empty())
      load.replaceAllUsesWith(
          ngpu::LocalLoadOp::create(b, load.getLoc(), load.getType(), buffer).getResult());
    load.erase();
  }

  void lowerStore(Operation *op) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    auto store = dyn_cast<tile::DescStoreOp>(op);
    auto reduce = dyn_cast<tile::DescReduceOp>(op);
    Value desc = op->getOperand(0), value = store ? store.getValue() : reduce.getValue();
    OperandRange coords = store ? store.getCoords() : reduce.getCoords();
    tile::AtomicKindAttr kind = reduce ? reduce.getKindAttr() : tile::AtomicKindAttr();
    bool complete = mayMeetAgain(op);
    auto type = copyBufferOf(cast<tile::DescType>(desc.getType()));
    Value buffer = ngpu::LocalAllocOp::create(b, loc, type, value, IntegerAttr());
    ngpu::FenceAsyncOp::create(b, loc);
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
    ngpu::TmaStoreOp::create(b, loc, tensorMapOf(b, desc), coords, buffer, kind, IntegerAttr(),
                             IntegerAttr());
    ngpu::TmaStoreWaitOp::create(b, loc, 0, complete);
    // The buffer's bytes are used again only after the one thread that waits has seen it read.
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
    op->erase();
  }

  /// Whose memory a descriptor or a map describes. Of a descriptor that is no longer there the plan
  /// knows the name.
  struct Tensor {
    Value argument;
    std::string name;

    bool mayBe(const Tensor &other) const {
      if (argument && other.argument)
        return argument == other.argument;
      return name.empty() || other.name.empty() || name == other.name;
    }
  };
  static Tensor tensorOf(Value desc) {
    Value base = desc.getDefiningOp<tile::MakeDescriptorOp>().getBase();
    return {argumentOf(base), nameOf(base)};
  }
  Tensor tensorBehind(Value map) const {
    uint32_t number = map.getDefiningOp<ngpu::TensorMapOfOp>().getArgument();
    if (auto found = tensors.find(number); found != tensors.end())
      return found->second;
    return {Value(), number < plans.size() ? plans[number].name : std::string()};
  }

  /// The kernel's argument that pointers are made of by additions; null: not known.
  static Value argumentBehind(Value pointer) {
    while (Operation *op = pointer.getDefiningOp()) {
      if (!isa<tile::AddPtrOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp>(op))
        return Value();
      pointer = op->getOperand(0);
    }
    auto argument = cast<BlockArgument>(pointer);
    return isa<func::FuncOp>(argument.getOwner()->getParentOp()) ? argument : Value();
  }

  /// Do two ops change the same elements in a way that does not depend on their order? Reductions
  /// of one kind do: the memory combines each element as one operation.
  static bool commute(Operation *a, Operation *b) {
    auto one = dyn_cast<tile::DescReduceOp>(a), other = dyn_cast<tile::DescReduceOp>(b);
    return one && other && one.getKind() == other.getKind();
  }

  /// May another access of the kernel touch what a store or reduction writes, or `self` in another
  /// turn of a loop? Tensors of different arguments do not overlap as far as the engine is
  /// concerned.
  bool mayMeetAgain(Operation *self) {
    if (!commute(self, self) && writesAgain(self, self->getOperands().drop_front().drop_back()))
      return true;
    Tensor written = tensorOf(self->getOperand(0));
    bool isDivided = bool(ngpu::warpSpecializeOf(kernel));
    return kernel
        .walk([&](Operation *op) {
          if (op == self)
            return WalkResult::advance();
          bool meets =
              isa<tile::LoadOp, tile::StoreOp, tile::Atomic, ngpu::AsyncCopyOp, func::CallOp>(op);
          // A load may run ahead of stores to another argument where warps are divided.
          if (auto load = dyn_cast<tile::LoadOp>(op); load && isDivided)
            meets = argumentBehind(load.getPtr()) == nullptr ||
                    argumentBehind(load.getPtr()) == written.argument;
          if (isa<tile::DescLoadOp, tile::DescStoreOp, tile::DescReduceOp>(op))
            meets = !commute(self, op) && written.mayBe(tensorOf(op->getOperand(0)));
          // Those of pipelined loops, and stores before this one, are lowered already.
          if (auto load = dyn_cast<ngpu::TmaLoadOp>(op))
            meets = written.mayBe(tensorBehind(load.getMap()));
          if (auto store = dyn_cast<ngpu::TmaStoreOp>(op))
            meets = written.mayBe(tensorBehind(store.getMap()));
          return meets ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Is `store` in a loop whose turns all write the same block?
  bool writesAgain(Operation *store, OperandRange coords) {
    for (Operation *op = store->getParentOp(); op != kernel; op = op->getParentOp()) {
      auto loop = dyn_cast<LoopLikeOpInterface>(op);
      if (loop && llvm::none_of(coords, [&](Value coord) {
            return op->isProperAncestor(coord.getParentBlock()->getParentOp()) ||
                   coord.getParentBlock()->getParentOp() == op;
          }))
        return true;
    }
    return false;
  }

  func::FuncOp kernel;
  const GpuOptions &options;
  MutableArrayRef<TensorMapPlan> plans;
  llvm::DenseMap<uint32_t, Tensor> tensors; ///< by map, of descriptors that are still there
};

} // namespace

bool lowerTensorCopies(func::FuncOp kernel, const GpuOptions &options,
                       MutableArrayRef<TensorMapPlan> plans) {
  return kernel->hasAttr("ngpu.tensor_maps") && Lowering(kernel, options, plans).run();
}

} // namespace nereid::gpu
