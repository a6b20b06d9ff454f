#include "MatrixUnits.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <vector>

using namespace llvm;

namespace nereid::test {
namespace {

struct Element {
  StringRef name;

  unsigned bits() const {
    if (name == "f64")
      return 64;
    if (name == "f16" || name == "bf16")
      return 16;
    return name == "f32" || name == "tf32" || name == "s32" ? 32 : 8;
  }
  double decode(uint64_t word) const {
    if (name == "s8")
      return int8_t(word);
    if (name == "u8")
      return uint8_t(word);
    if (name == "s32")
      return int32_t(word);
    APFloat value(semantics(), APInt(bits(), name == "tf32" ? word & 0xFFFFE000u : word));
    bool lost;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble();
  }
  uint64_t encode(double number) const {
    if (name == "s32")
      return uint32_t(int64_t(number)); // sums wrap
    APFloat value(number);
    bool lost;
    value.convert(semantics(), APFloat::rmNearestTiesToEven, &lost);
    return value.bitcastToAPInt().getZExtValue();
  }

private:
  const fltSemantics &semantics() const {
    return name == "f64"    ? APFloat::IEEEdouble()
           : name == "f16"  ? APFloat::IEEEhalf()
           : name == "bf16" ? APFloat::BFloat()
           : name == "e4m3" ? APFloat::Float8E4M3FN()
           : name == "e5m2" ? APFloat::Float8E5M2()
                            : APFloat::IEEEsingle();
  }
};

/// `{$0, $1}, $2, first, 1`: lists of operand numbers, or words.
struct Operand {
  SmallVector<unsigned> numbers;
  std::string word;
};

SmallVector<Operand> operandsOf(StringRef text) {
  SmallVector<Operand> result;
  while (!(text = text.ltrim(" ,;")).empty()) {
    Operand &operand = result.emplace_back();
    bool list = text.consume_front("{");
    StringRef all = text.take_until([&](char c) { return list ? c == '}' : c == ',' || c == ';'; });
    text = text.drop_front(all.size() + (list ? 1 : 0));
    if (!all.contains('$')) {
      operand.word = all.trim().str();
      continue;
    }
    SmallVector<StringRef> parts;
    all.split(parts, ',');
    for (StringRef part : parts) {
      unsigned number = 0;
      part.trim().drop_front().getAsInteger(10, number);
      operand.numbers.push_back(number);
    }
  }
  return result;
}

struct Matrix {
  Matrix(unsigned rows, unsigned columns) : columns(columns), values(rows * columns) {}
  double &at(unsigned row, unsigned column) { return values[row * columns + column]; }
  unsigned columns;
  std::vector<double> values;
};

struct Shape {
  unsigned m = 0, n = 0, k = 0;
};

/// "m16n8k16"
Shape shapeOf(StringRef text) {
  Shape shape;
  text.consume_front("m");
  text.consumeInteger(10, shape.m);
  text.consume_front("n");
  text.consumeInteger(10, shape.n);
  text.consume_front("k");
  text.consumeInteger(10, shape.k);
  return shape;
}

Matrix product(Matrix &a, Matrix &b, const Shape &shape) {
  Matrix result(shape.m, shape.n);
  for (unsigned i = 0; i < shape.m; ++i)
    for (unsigned j = 0; j < shape.n; ++j)
      for (unsigned k = 0; k < shape.k; ++k)
        result.at(i, j) += a.at(i, k) * b.at(k, j);
  return result;
}

uint64_t field(uint64_t word, unsigned index, unsigned bits) {
  return bits == 64 ? word : word >> index * bits & ((uint64_t(1) << bits) - 1);
}

//===--- mma.sync
//------------------------------------------------------------------------------===//

std::string multiplyWarp(ArrayRef<StringRef> name, ArrayRef<Operand> operands,
                         const MatrixThreads &threads) {
  // mma.sync.aligned.SHAPE.row.col.D.A.B.C
  Shape shape = shapeOf(name[3]);
  Element d{name[6]}, a{name[7]}, b{name[8]};
  Matrix x(shape.m, shape.k), y(shape.k, shape.n);
  unsigned perWord = std::max(32 / a.bits(), 1u);
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned g = lane / 4, q = lane % 4;
    for (auto [w, number] : enumerate(operands[1].numbers))
      for (unsigned i = 0; i < perWord; ++i)
        x.at(g + 8 * (w % 2), q * perWord + i + shape.k / 2 * (w / 2)) =
            a.decode(field(threads.read(lane, number), i, a.bits()));
    for (auto [w, number] : enumerate(operands[2].numbers))
      for (unsigned i = 0; i < perWord; ++i)
        y.at(q * perWord + i + shape.k / 2 * w, g) =
            b.decode(field(threads.read(lane, number), i, b.bits()));
  }
  Matrix sum = product(x, y, shape);
  unsigned packed = d.bits() == 16 ? 2 : 1;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (auto [w, number] : enumerate(operands[0].numbers)) {
      uint64_t old = threads.read(lane, operands[3].numbers[w]), word = 0;
      for (unsigned i = 0; i < packed; ++i) {
        unsigned value = w * packed + i;
        double total = sum.at(lane / 4 + 8 * (value / 2), 2 * (lane % 4) + value % 2) +
                       d.decode(field(old, i, d.bits()));
        word |= d.encode(total) << i * 16;
      }
      threads.write(lane, number, word);
    }
  return "";
}

//===--- wgmma
//---------------------------------------------------------------------------------===//

/// Where element (o, k) of an operand's block lies: o counts rows of A or columns of B. From the
/// tables of canonical layouts.
uint64_t addressOf(uint64_t descriptor, bool kMajor, unsigned bytes, uint64_t o, uint64_t k) {
  uint64_t start = (descriptor & 0x3FFF) << 4;
  uint64_t leading = (descriptor >> 16 & 0x3FFF) << 4, stride = (descriptor >> 32 & 0x3FFF) << 4;
  unsigned code = descriptor >> 62;
  unsigned atoms = code == 1 ? 8 : code == 2 ? 4 : code == 3 ? 2 : 1; // of 16 bytes in a row
  uint64_t adjacent = (kMajor ? k : o) * bytes, across = kMajor ? o : k;
  uint64_t chunk = adjacent / 16, at = start + adjacent % 16 + across % 8 * 16 * atoms;
  if (code == 0 && kMajor)
    at += chunk * leading + across / 8 * stride;
  else if (code == 0)
    at += chunk * stride + across / 8 * leading;
  else
    at += chunk % atoms * 16 + chunk / atoms * leading + across / 8 * stride;
  return at ^ ((at >> 7 & (atoms - 1)) << 4);
}

std::string multiplyGroup(ArrayRef<StringRef> name, ArrayRef<Operand> operands,
                          const MatrixThreads &threads) {
  // wgmma.mma_async.sync.aligned.SHAPE.D.A.B
  Shape shape = shapeOf(name[4]);
  Element d{name[5]}, a{name[6]}, b{name[7]};
  bool fromRegisters = operands[1].numbers.size() > 1;
  bool halves = a.bits() == 16;
  // D, A, B, predicate, then the signs (floats) and the orders (16 bits; A's of a descriptor).
  size_t expected = 4 + (d.name == "s32" ? 0 : 2) + (halves ? (fromRegisters ? 1 : 2) : 0);
  if (operands.size() != expected)
    return "wgmma with " + std::to_string(operands.size()) + " operands, expected " +
           std::to_string(expected);
  bool turnB = halves && operands.back().word == "1";
  bool turnA = halves && !fromRegisters && operands[operands.size() - 2].word == "1";

  Matrix x(64, shape.k), y(shape.k, shape.n);
  auto fill = [&](const Operand &from, const Element &element, bool turned, unsigned count,
                  auto place) {
    auto read = [&](unsigned thread) {
      return from.numbers.empty() ? threads.named(thread, from.word)
                                  : threads.read(thread, from.numbers[0]);
    };
    uint64_t descriptor = read(0);
    for (unsigned thread = 1; thread < 128; ++thread)
      if (read(thread) != descriptor)
        return std::string("descriptors differ within a group");
    for (unsigned o = 0; o < count; ++o)
      for (unsigned k = 0; k < shape.k; ++k) {
        uint64_t word = 0;
        if (!threads.shared(addressOf(descriptor, !turned, element.bits() / 8, o, k),
                            element.bits() / 8, word))
          return std::string("wgmma reads what it must not");
        place(o, k) = element.decode(word);
      }
    return std::string();
  };
  std::string error = fill(operands[2], b, turnB, shape.n,
                           [&](unsigned o, unsigned k) -> double & { return y.at(k, o); });
  if (!error.empty())
    return error;
  if (!fromRegisters) {
    error = fill(operands[1], a, turnA, 64,
                 [&](unsigned o, unsigned k) -> double & { return x.at(o, k); });
    if (!error.empty())
      return error;
  } else {
    unsigned perWord = 32 / a.bits();
    for (unsigned t = 0; t < 128; ++t)
      for (auto [w, number] : enumerate(operands[1].numbers))
        for (unsigned j = 0; j < perWord; ++j) {
          unsigned i = w * perWord + j, row = 16 * (t / 32) + t % 32 / 4, column;
          if (a.bits() == 16) {
            row += 8 * (i / 2 % 2);
            column = 8 * (i / 4) + 2 * (t % 4) + i % 2;
          } else if (a.bits() == 8) {
            row += 8 * (i / 4 % 2);
            column = 16 * (i / 8) + 4 * (t % 4) + i % 4;
          } else {
            row += 8 * (i % 2);
            column = t % 4 + 4 * (i / 2);
          }
          x.at(row, column) = a.decode(field(threads.read(t, number), j, a.bits()));
        }
  }
  Matrix sum = product(x, y, shape);
  bool add = threads.predicate(operands[3].word);
  unsigned packed = d.bits() == 16 ? 2 : 1;
  for (unsigned t = 0; t < 128; ++t)
    for (auto [w, number] : enumerate(operands[0].numbers)) {
      uint64_t old = threads.read(t, number), word = 0;
      for (unsigned j = 0; j < packed; ++j) {
        unsigned i = w * packed + j;
        double total =
            sum.at(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (t % 4) + i % 2);
        if (add)
          total += d.decode(field(old, j, d.bits()));
        word |= d.encode(total) << j * 16;
      }
      threads.write(t, number, word);
    }
  return "";
}

} // namespace

std::string multiply(StringRef instruction, const MatrixThreads &threads) {
  auto [mnemonic, rest] = instruction.trim().split(' ');
  SmallVector<StringRef> name;
  mnemonic.split(name, '.');
  SmallVector<Operand> operands = operandsOf(rest);
  if (name[0] == "mma")
    return multiplyWarp(name, operands, threads);
  return multiplyGroup(name, operands, threads);
}

} // namespace nereid::test
