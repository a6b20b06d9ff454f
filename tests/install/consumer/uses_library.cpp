#include <cstddef>
#include <vector>

bool addInLibrary(const float *x, const float *y, float *out, size_t count);

int main() {
  std::vector<float> x(2000, 1.5f), y(2000, 2.0f), out(2000);
  if (!addInLibrary(x.data(), y.data(), out.data(), out.size()))
    return 1;
  return out[0] == 3.5f && out[1999] == 3.5f ? 0 : 2;
}
