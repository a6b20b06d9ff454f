"""scripts/function_lengths.py: where functions begin and end, without a compiler."""

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_spec = importlib.util.spec_from_file_location("function_lengths", ROOT / "scripts" / "function_lengths.py")
function_lengths = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(function_lengths)

CXX = r'''
#define OPEN {
namespace a::b {
namespace {
struct Row {
  int x = 1;
  static int one() { return 1; }
};
const Row rows[] = {
    {1},
    {2},
};
enum class E { A, B };
// a comment with { in it
class C : Base {
  C(int x)
      : x(x), y("{") {
    run([&] {
      if (x)
        return '{';
    });
  }
  virtual int f() const override {
    return R"({ {)";
  }
};
} // namespace
template <typename T>
std::vector<T> g(T x,
                 int y = 2) noexcept {
  for (;;) {
  }
  switch (y) {
  case 1: {
  }
  }
}
extern "C" {
int h() {
  return 1'000;
}
}
auto k(int x) -> int {
  return x;
}
}
'''


def test_cxx():
    assert list(function_lengths.cxx_functions(CXX)) == [
        (7, 1, "one"), (16, 7, "C"), (23, 3, "f"), (28, 10, "g"), (39, 3, "h"), (43, 3, "k")]


def test_python():
    text = "def f():\n    def g():\n        pass\n    return g\n\nclass C:\n    async def h(self):\n        pass\n"
    assert sorted(function_lengths.python_functions(text)) == [(1, 4, "f"), (2, 2, "g"), (7, 2, "h")]


def test_every_long_file_has_functions():
    """A file that the reader of braces loses its way in would have none, or end in one that never closes."""
    for path in sorted((ROOT / "src").rglob("*.cpp")):
        text = path.read_text()
        if text.count("\n") > 300:
            found = list(function_lengths.cxx_functions(text))
            assert found and max(first + lines for first, lines, _ in found) <= text.count("\n") + 1, path
