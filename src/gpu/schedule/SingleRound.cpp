#include "gpu/schedule/SingleRound.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace nereid::gpu {

bool runsOnceAtMost(scf::ForOp loop) {
  APInt step, distance;
  auto end = loop.getUpperBound().getDefiningOp<arith::AddIOp>();
  if (!end || !matchPattern(loop.getStep(), m_ConstantInt(&step)))
    return false;
  Value start = loop.getLowerBound(), other;
  if (end.getLhs() == start)
    other = end.getRhs();
  else if (end.getRhs() == start)
    other = end.getLhs();
  return other && matchPattern(other, m_ConstantInt(&distance)) && distance.isStrictlyPositive() &&
         distance.sle(step);
}

void makeBranch(scf::ForOp loop) {
  IRRewriter rewriter(loop);
  Location loc = loop.getLoc();
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Value runs =
      arith::CmpIOp::create(rewriter, loc, less, loop.getLowerBound(), loop.getUpperBound());
  bool hasResults = loop.getNumResults() > 0;
  auto branch = scf::IfOp::create(rewriter, loc, loop.getResultTypes(), runs,
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasResults);
  llvm::SmallVector<Value> arguments = {loop.getLowerBound()};
  llvm::append_range(arguments, loop.getInitArgs());
  Block *then = branch.thenBlock();
  if (!then->empty())
    rewriter.eraseOp(then->getTerminator());
  rewriter.mergeBlocks(loop.getBody(), then, arguments);
  if (hasResults) {
    rewriter.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(rewriter, loc, loop.getInitArgs());
  }
  rewriter.replaceOp(loop, branch.getResults());
}

} // namespace nereid::gpu
