#include "targets/nvidia/codegen/RowPointers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Local.h"

namespace nereid::nvidia {
namespace {

bool isPtx(const llvm::User &user, llvm::StringRef name) {
  auto *call = llvm::dyn_cast<llvm::CallInst>(&user);
  auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  return text && text->getAsmString().contains(name);
}

bool isProduct(const llvm::Instruction &op) { return isPtx(op, "wgmma.mma_async"); }
bool isCopy(const llvm::User *user) { return isPtx(*user, "cp.async"); }

/// `pointer` as an address in global memory some elements of a number past another one; null if it
/// is none.
llvm::GetElementPtrInst *stepIn(llvm::Value *pointer) {
  auto *step = llvm::dyn_cast<llvm::GetElementPtrInst>(pointer);
  return step && step->getNumIndices() == 1 && step->getPointerAddressSpace() == 1 &&
                 step->getType()->isPointerTy() &&
                 step->getSourceElementType()->isIntegerTy() &&
                 step->getOperand(1)->getType()->isIntegerTy(64)
             ? step
             : nullptr;
}

class Rewriter {
public:
  explicit Rewriter(llvm::Loop &loop)
      : loop(loop), layout(loop.getHeader()->getModule()->getDataLayout()),
        before(loop.getLoopPreheader()->getTerminator()) {}

  void run() {
    llvm::SmallVector<std::pair<llvm::GetElementPtrInst *, llvm::GetElementPtrInst *>> found;
    for (llvm::BasicBlock *block : loop.blocks())
      for (llvm::Instruction &op : *block)
        if (llvm::GetElementPtrInst *row = stepIn(&op); row && llvm::any_of(row->users(), isCopy))
          if (llvm::GetElementPtrInst *moved = movedBase(*row))
            found.emplace_back(row, moved);
    for (auto [row, moved] : found) {
      llvm::Value *start = before.CreateGEP(row->getSourceElementType(),
                                            moved->getPointerOperand(), row->getOperand(1));
      llvm::IRBuilder<> b(row);
      row->replaceAllUsesWith(b.CreatePtrAdd(start, bytesMoved(*moved)));
      row->eraseFromParent();
    }
    for (auto &[moved, bytes] : offsets)
      llvm::RecursivelyDeleteTriviallyDeadInstructions(moved);
  }

private:
  /// What `row` goes on from, when that moves in the loop and the way from there does not.
  llvm::GetElementPtrInst *movedBase(llvm::GetElementPtrInst &row) const {
    llvm::GetElementPtrInst *moved = stepIn(row.getPointerOperand());
    return moved && loop.contains(moved) && loop.isLoopInvariant(moved->getPointerOperand()) &&
                   !loop.isLoopInvariant(moved->getOperand(1)) &&
                   loop.isLoopInvariant(row.getOperand(1)) &&
                   !llvm::isa<llvm::Constant>(row.getOperand(1))
               ? moved
               : nullptr;
  }

  /// How far `moved` is from its base, opaque.
  llvm::Value *bytesMoved(llvm::GetElementPtrInst &moved) {
    llvm::Value *&bytes = offsets[&moved];
    if (bytes)
      return bytes;
    llvm::IRBuilder<> b(&moved);
    uint64_t size = layout.getTypeAllocSize(moved.getSourceElementType());
    bytes = b.CreateMul(moved.getOperand(1), b.getInt64(size));
    auto *code = llvm::InlineAsm::get(
        llvm::FunctionType::get(b.getInt64Ty(), {b.getInt64Ty()}, false), "mov.b64 $0, $1;",
        "=l,l", /*hasSideEffects=*/false);
    llvm::CallInst *call = b.CreateCall(code, {bytes});
    call->setDoesNotThrow();
    call->setDoesNotAccessMemory();
    return bytes = call;
  }

  llvm::Loop &loop;
  const llvm::DataLayout &layout;
  llvm::IRBuilder<> before;
  llvm::MapVector<llvm::GetElementPtrInst *, llvm::Value *> offsets;
};

} // namespace

void hoistRowPointers(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    llvm::SmallVector<llvm::BasicBlock *> products;
    for (llvm::BasicBlock &block : function)
      if (llvm::any_of(block, isProduct))
        products.push_back(&block);
    if (products.empty())
      continue;
    llvm::DominatorTree dominators(function);
    llvm::LoopInfo loops(dominators);
    llvm::SmallPtrSet<llvm::Loop *, 4> done;
    for (llvm::BasicBlock *block : products)
      if (llvm::Loop *loop = loops.getLoopFor(block))
        if (done.insert(loop).second && loop->getLoopPreheader())
          Rewriter(*loop).run();
  }
}

} // namespace nereid::nvidia
