// Printing and stopping from a running kernel, and promises to the optimiser.
//
// device_print calls the device's vprintf once per element, by the element's owner. A failed
// assertion prints its message the way CUDA's own assert does, and ends the launch.
#include "gpu/emit/Elements.h"
#include "targets/nvidia/emit/Emitter.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

/// The places of a location, innermost first: of the operation, then of the calls around it.
void appendPlaces(Location location, llvm::SmallVectorImpl<FileLineColLoc> &places) {
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    appendPlaces(call.getCallee(), places);
    appendPlaces(call.getCaller(), places);
  } else if (auto name = dyn_cast<NameLoc>(location)) {
    appendPlaces(name.getChildLoc(), places);
  } else if (auto place = dyn_cast<FileLineColLoc>(location)) {
    places.push_back(place);
  }
}

/// "kernels.py:12"
std::string lineOf(FileLineColLoc place) {
  return (place.getFilename().getValue() + ":" + llvm::Twine(place.getLine())).str();
}

/// Where an operation stands in the source. The driver writes `file:number: function: block: ...`,
/// so the line is part of what it takes for the file, and the column is its number.
struct ReportedPlace {
  std::string file = "unknown", function = "kernel", calls;
  unsigned number = 0;
};
ReportedPlace placeOf(Operation *op) {
  ReportedPlace place;
  llvm::SmallVector<FileLineColLoc> places;
  appendPlaces(op->getLoc(), places);
  if (!places.empty()) {
    place.file = lineOf(places[0]);
    place.number = places[0].getColumn();
    for (FileLineColLoc call : llvm::drop_begin(places))
      place.calls += ", called from " + lineOf(call) + ":" + std::to_string(call.getColumn());
  }
  if (auto function = op->getParentOfType<func::FuncOp>())
    place.function = function.getName().str();
  return place;
}

/// printf(format, args...): arguments of 4 or 8 bytes each.
void print(Emitter &e, StringRef format, llvm::ArrayRef<llvm::Value *> args) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *pointer = b.getPtrTy();
  auto vprintf = e.module.getOrInsertFunction(
      "vprintf", llvm::FunctionType::get(b.getInt32Ty(), {pointer, pointer}, false));
  llvm::Value *buffer = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (!args.empty()) {
    llvm::SmallVector<llvm::Type *> types;
    for (llvm::Value *arg : args)
      types.push_back(arg->getType());
    auto *frame = llvm::StructType::get(b.getContext(), types);
    {
      llvm::IRBuilder<>::InsertPointGuard guard(b);
      b.SetInsertPoint(b.GetInsertBlock()->getParent()->getEntryBlock().getTerminator());
      buffer = b.CreateAlloca(frame);
    }
    for (auto [i, arg] : llvm::enumerate(args))
      b.CreateStore(arg, b.CreateStructGEP(frame, buffer, i));
    if (buffer->getType() != pointer)
      buffer = b.CreateAddrSpaceCast(buffer, pointer);
  }
  b.CreateCall(vprintf, {e.string(format), buffer});
}

/// The conversion of one element in printf's format, and the element as its argument.
struct Printed {
  std::string format;
  llvm::Value *value;
};
Printed printed(Emitter &e, llvm::Value *value, mlir::Type type, bool isSigned, bool hex) {
  llvm::IRBuilder<> &b = e.b;
  unsigned bytes = tile::sizeInBytes(type);
  if (isa<tile::PtrType>(type))
    return {"0x%016llx", b.CreatePtrToInt(value, b.getInt64Ty())};
  bool isFloat = isa<FloatType>(type);
  if (isFloat && !hex) {
    llvm::Value *number = convertFloat(e, value, type, Float64Type::get(type.getContext()));
    // No `-nan`: the sign of what is no number says nothing, and depends on the machine.
    auto *nan = llvm::ConstantFP::getNaN(b.getDoubleTy());
    return {"%f", b.CreateSelect(b.CreateFCmpUNO(number, number), nan, number)};
  }
  if (isFloat && !value->getType()->isIntegerTy())
    value = b.CreateBitCast(value, e.intType(8 * bytes));
  bool wide = bytes == 8;
  llvm::Type *target = wide ? b.getInt64Ty() : b.getInt32Ty();
  value = isSigned && !hex ? b.CreateSExt(value, target) : b.CreateZExt(value, target);
  if (hex)
    return {"0x%0" + std::to_string(2 * bytes) + (wide ? "llx" : "x"), value};
  return {wide ? (isSigned ? "%lld" : "%llu") : (isSigned ? "%d" : "%u"), value};
}

/// One line per element: `pid (0, 0, 0) idx ( 5) x: 5`, where ` x: ` is the prefix.
void emitPrint(Emitter &e, tile::PrintOp op) {
  // A percent sign in the prefix is no conversion.
  std::string prefix;
  for (char c : op.getPrefix())
    prefix += c == '%' ? "%%" : std::string(1, c);
  Values program = {e.programId(0), e.programId(1), e.programId(2)};
  if (op.getArgs().empty())
    return e.when(e.isFirstThread(),
                  [&] { print(e, "pid (%u, %u, %u)" + prefix + "\n", program); });
  for (auto [number, argument] : llvm::enumerate(op.getArgs())) {
    auto tensor = dyn_cast<RankedTensorType>(argument.getType());
    mlir::Type element = tile::elementOf(argument.getType());
    // Without the padding that gpu/shapes/PadShapes.h added.
    llvm::ArrayRef<int64_t> shape = tile::shapeOf(argument.getType());
    if (ArrayAttr shapes = op.getShapesAttr())
      shape = cast<DenseI64ArrayAttr>(shapes[number]).asArrayRef();
    std::string head = "pid (%u, %u, %u) idx (";
    for (auto [d, size] : llvm::enumerate(shape))
      head += (d ? ", %" : "%") + std::to_string(std::to_string(size - 1).size()) + "u";
    std::string label = ")" + prefix;
    if (op.getArgs().size() > 1)
      label += "(operand " + std::to_string(number) + ") ";
    auto registers = e.get(argument);
    e.when(tensor ? e.owner(tensor) : e.isFirstThread(), [&] {
      for (unsigned reg = 0; reg < registers.size(); ++reg) {
        if (tensor && e.isRedundantRegister(tensor, reg))
          continue;
        Values args = program;
        llvm::Value *exists = nullptr;
        if (tensor)
          for (auto [d, coordinate] : llvm::enumerate(e.coordinates(tensor, reg))) {
            args.push_back(coordinate);
            if (shape[d] == tensor.getDimSize(d))
              continue;
            llvm::Value *inside = e.b.CreateICmpULT(coordinate, e.i32(shape[d]));
            exists = exists ? e.b.CreateAnd(exists, inside) : inside;
          }
        e.when(exists, [&] {
          Printed value =
              printed(e, registers[reg], element, op.getIsSigned()[number], op.getHex());
          args.push_back(value.value);
          print(e, head + label + value.format + "\n", args);
        });
      }
    });
  }
}

/// Ends the launch with a message where a condition is false in any element of this thread.
void emitStop(Emitter &e, Operation *op, mlir::Value condition, mlir::Value mask,
              const llvm::Twine &message) {
  llvm::IRBuilder<> &b = e.b;
  auto conditions = e.get(condition);
  llvm::ArrayRef<llvm::Value *> masks;
  if (mask)
    masks = e.get(mask);
  mlir::Value most = masks.size() > conditions.size() ? mask : condition;
  auto tensor = dyn_cast<RankedTensorType>(most.getType());
  llvm::Value *failed = nullptr;
  for (unsigned reg = 0; reg < std::max(conditions.size(), masks.size()); ++reg) {
    if (tensor && e.isRedundantRegister(tensor, reg))
      continue;
    llvm::Value *fails = b.CreateNot(conditions[conditions.size() == 1 ? 0 : reg]);
    if (mask)
      fails = b.CreateAnd(fails, masks[masks.size() == 1 ? 0 : reg]);
    failed = failed ? b.CreateOr(failed, fails) : fails;
  }
  // One thread speaks for each element.
  if (llvm::Value *owner = tensor ? e.owner(tensor) : e.isFirstThread())
    failed = b.CreateAnd(failed, owner);
  ReportedPlace place = placeOf(op);
  e.when(failed, [&] {
    llvm::Type *pointer = b.getPtrTy();
    auto stop = e.module.getOrInsertFunction(
        "__assertfail",
        llvm::FunctionType::get(
            b.getVoidTy(), {pointer, pointer, b.getInt32Ty(), pointer, b.getInt64Ty()}, false));
    b.CreateCall(stop, {e.string(message.str() + place.calls), e.string(place.file),
                        e.i32(place.number), e.string(place.function), e.i64(1)});
  });
}

void emitCheck(Emitter &e, tile::CheckOp op) {
  std::string message = "the arithmetic of this offset overflows its integer type";
  if (op.getKind() == tile::CheckKind::Bounds) {
    std::string name = "a pointer";
    if (int32_t(op.getArgument()) >= 0) {
      auto attribute = e.kernel.getArgAttrOfType<StringAttr>(op.getArgument(), "tile.name");
      name = attribute ? "`" + attribute.getValue().str() + "`"
                       : "argument " + std::to_string(op.getArgument());
    }
    message = "this access is outside the memory of " + name;
  }
  emitStop(e, op, op.getCondition(), op.getMask(), message);
}

} // namespace

bool emitDebug(Emitter &e, Operation *op) {
  if (auto print = dyn_cast<tile::PrintOp>(op))
    emitPrint(e, print);
  else if (auto assertion = dyn_cast<tile::AssertOp>(op))
    emitStop(e, op, assertion.getCondition(), assertion.getMask(), assertion.getMessage());
  else if (auto check = dyn_cast<tile::CheckOp>(op))
    emitCheck(e, check);
  else if (auto assume = dyn_cast<tile::AssumeOp>(op))
    e.b.CreateAssumption(e.scalar(assume.getCondition()));
  else
    return false;
  return true;
}

} // namespace nereid::nvidia
