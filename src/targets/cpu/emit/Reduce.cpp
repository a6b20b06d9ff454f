// How lanes are combined among themselves.
#include "ir/tile/Combiner.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

bool isReorderable(Region &combiner) {
  return tile::declaresAnyOrder(combiner) ||
         tile::combinerKind(combiner) != tile::CombinerKind::Other;
}

SmallVector<Value> combineLanes(Kernel &k, Region &combiner, ArrayRef<Value> lanes,
                                bool commutative, int64_t least) {
  SmallVector<Value> values(lanes);
  for (int64_t width = Emit::widthOf(values[0]); width > least; width /= 2) {
    // In order: neighbours. Free: the lower half with the upper half, which is cheaper.
    SmallVector<int64_t> left, right;
    for (int64_t i = 0; i < width / 2; ++i) {
      left.push_back(commutative ? i : 2 * i);
      right.push_back(commutative ? i + width / 2 : 2 * i + 1);
    }
    SmallVector<Value> lhs, rhs;
    for (Value value : values) {
      lhs.push_back(width == 2 ? k.e.extract(value, 0) : k.e.shuffle(value, left));
      rhs.push_back(width == 2 ? k.e.extract(value, 1) : k.e.shuffle(value, right));
    }
    values = k.e.combine(combiner, lhs, rhs, width / 2);
  }
  return values;
}

} // namespace nereid::cpu
