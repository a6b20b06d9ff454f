#include "faces/python/stack.h"

#include <algorithm>
#include <cstring>

namespace nereid::python {

namespace {

uint64_t generation = 0; ///< see choicesChanged

/// Counted by hand under the interpreter's lock: a launch holds what it uses while Python code
/// that it calls may replace it.
template <typename T> class Held {
public:
  explicit Held(T *object) : object(object) {
    if (object)
      ++object->holds;
  }
  Held(const Held &) = delete;
  Held(Held &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  ~Held() { release(object); }
  T *operator->() const { return object; }
  T &operator*() const { return *object; }
  explicit operator bool() const { return object != nullptr; }
  static void release(T *object) {
    if (object && --object->holds == 0)
      delete object;
  }

private:
  T *object;
};

/// One heuristic.
struct Rule {
  Ref name, callable;
  std::vector<Guard> guards;
  int parameter;     ///< that it gives; -1 for an option
  bool isProven;     ///< its result depends on `values`, `nones` and the guards alone
  Ref values, nones; ///< tuples of names: whose values it reads, which it compares with None
};

/// One decorator; what each launch reads comes first.
struct alignas(64) Layer {
  PyObject *object; ///< a KernelBase; the outermost owns the stack, the others are kept by `below`
  PyObject *run;
  uint64_t version;
  bool isTuner;
  bool isSingle = false;    ///< one configuration, which no key chooses
  bool isWatched = false;   ///< changes of `cache` are told (choicesChanged)
  Ref configs, keys, cache; ///< of a tuner
  Ref values;               ///< of heuristics
  std::vector<Ref> keyNames;
  std::vector<Rule> rules;
  Ref below; ///< what it decorates

  bool isUnchanged() const;
};

/// Whether a dict holds exactly these pairs in this order. Another order counts as a change.
template <typename Pairs, typename Matches>
bool holdsInOrder(PyObject *dict, const Pairs &pairs, Matches matches) {
  PyObject *name = nullptr, *value = nullptr;
  auto pair = pairs.begin();
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &name, &value); ++pair)
    if (pair == pairs.end() || !matches(*pair, name, value))
      return false;
  return pair == pairs.end();
}

bool Layer::isUnchanged() const {
  const KernelBaseObject *kernel = asKernel(object);
  if (kernel->version != version || kernel->indirect)
    return false;
  if (!isTuner) {
    bool same =
        holdsInOrder(values.get(), rules, [](const Rule &rule, PyObject *name, PyObject *callable) {
          return rule.callable.get() == callable && rule.name.get() == name;
        });
    for (size_t i = 0; same && i < rules.size(); ++i)
      for (const Guard &guard : rules[i].guards)
        same &= guard.holds();
    return same;
  }
  if ((PyList_Size(configs.get()) == 1) != isSingle ||
      PyList_Size(keys.get()) != Py_ssize_t(keyNames.size()))
    return false;
  for (size_t i = 0; i < keyNames.size(); ++i)
    if (PyList_GetItem(keys.get(), Py_ssize_t(i)) != keyNames[i].get())
      return false;
  return true;
}

/// The part of an argument that is in the key of an addition.
enum Need : uint8_t { NeedNothing, NeedElements = 1, NeedValue = 2, NeedNoneness = 4 };

/// A name that a decorator gives a value to.
struct Given {
  size_t layer;
  int parameter; ///< -1 for an option
  Ref name, value;
  bool isReady = false; ///< `argument` was made, and stays good
  nrd_arg argument{};
};

/// A tuner's configuration.
struct Choice {
  size_t layer;
  Ref config;
  Ref key; ///< of the tuner's cache
  Py_ssize_t cacheSize;
  Ref kwargs; ///< the configuration's own dict, null when it has none, and what was in it
  std::vector<std::pair<Ref, Ref>> items;
  Ref preHook;
};

/// What a run of decorators adds to a launch, for one key.
struct alignas(64) Addition {
  int holds = 1;
  bool isReusable = true;
  bool isPlain = false; ///< constants and options that are ready, and no code of the user's
  uint64_t generation = 0;
  std::vector<Choice> choices;
  std::vector<Given> given;
  OptionSet *options = nullptr; ///< of the whole launch, where nothing else adds options
  uint64_t hash = 0;
  std::vector<uint64_t> key;
  std::vector<Ref> inKey; ///< objects whose address is in `key`
  ArgumentScope scope;    ///< of the arguments in `given`

  bool isCurrent(const std::vector<Layer> &layers) const;
};

bool Addition::isCurrent(const std::vector<Layer> &layers) const {
  if (generation != python::generation)
    return false;
  for (const Choice &choice : choices) {
    const Layer &layer = layers[choice.layer];
    if (layer.isSingle) {
      if (PyList_GetItem(layer.configs.get(), 0) != choice.config.get())
        return false;
    } else if (PyDict_Size(layer.cache.get()) != choice.cacheSize) {
      return false;
    } else if (!layer.isWatched && PyDict_GetItemWithError(layer.cache.get(), choice.key.get()) !=
                                       choice.config.get()) {
      return false;
    }
    if (!choice.kwargs)
      continue;
    if (!holdsInOrder(choice.kwargs.get(), choice.items,
                      [](const auto &item, PyObject *name, PyObject *value) {
                        return item.second.get() == value && item.first.get() == name;
                      }))
      return false;
  }
  return true;
}

/// Decorators in a row whose additions one key decides; or one heuristic that must be asked each
/// time.
struct Step {
  std::vector<std::pair<size_t, int>> parts; ///< layer, and the number of its rule; -1: tuner
  const Rule *asked = nullptr;
  std::vector<uint8_t> needs;    ///< Need bits by parameter
  std::vector<Addition *> table; ///< open addressing; its size is a power of two
  size_t used = 0;

  Step() = default;
  Step(Step &&) = default;
  ~Step() {
    for (Addition *addition : table)
      Held<Addition>::release(addition);
  }
  Addition *&slot(const uint64_t *key, size_t size, uint64_t hash);
  void insert(Addition *addition);
};

/// A key has a word with a bit for each parameter, at most five words a parameter, and three an
/// option.
constexpr size_t mostParameters = 64, mostOptions = 24;
constexpr size_t mostWords = 1 + 5 * mostParameters + 3 * mostOptions;

/// Beyond this a key is not worth remembering: the values in it hardly come again.
constexpr size_t mostAdditions = 4096;

Addition *&Step::slot(const uint64_t *key, size_t size, uint64_t hash) {
  size_t mask = table.size() - 1, at = hash & mask;
  for (; table[at]; at = (at + 1) & mask)
    if (table[at]->hash == hash && table[at]->key.size() == size &&
        std::memcmp(table[at]->key.data(), key, size * sizeof *key) == 0)
      break;
  return table[at];
}

void Step::insert(Addition *addition) {
  Addition *&place = slot(addition->key.data(), addition->key.size(), addition->hash);
  if (place) {
    Held<Addition>::release(std::exchange(place, addition));
    return;
  }
  std::vector<Addition *> old;
  if (used == mostAdditions) {
    old = std::exchange(table, std::vector<Addition *>(8));
    used = 0;
    for (Addition *forgotten : old)
      Held<Addition>::release(forgotten);
  } else if (used * 2 >= table.size()) {
    old = std::exchange(table, std::vector<Addition *>(table.size() * 2));
    for (Addition *kept : old)
      if (kept)
        slot(kept->key.data(), kept->key.size(), kept->hash) = kept;
  }
  slot(addition->key.data(), addition->key.size(), addition->hash) = addition;
  ++used;
}

/// The common form of an argument in launches that need the same addition. Small, so that all of
/// them lie in few lines of the cache.
struct Look {
  PyTypeObject *type;
  uint32_t head;     ///< the first 4 bytes of the argument; the next 4 are 0
  bool headMatters;  ///< whether they decide
  bool valueMatters; ///< whether its value does (Memory::values)
};

/// The addition of the last launches and how to know it again, without a key. Only of launches
/// without keywords whose arguments are plain tensors, numbers and None, through decorators that
/// one key decides.
struct Memory {
  Addition *addition = nullptr; ///< of the table, which says when it goes
  Addition *missed = nullptr;   ///< of the last launch that was another; never looked into
  std::vector<Look> looks;      ///< of the positional arguments
  std::vector<uint64_t> values; ///< of those whose value matters, in order
  bool isWhole = false;         ///< the addition is plain, and gives all that is not positional
};

} // namespace

class Stack {
public:
  int holds = 1;
  std::vector<Layer> layers; ///< the outermost first
  Ref kernel;                ///< the JITFunction
  uint64_t kernelVersion;
  Function *function;
  std::vector<Step> steps;
  Memory memory;
  Py_ssize_t firstRuled = PY_SSIZE_T_MAX; ///< the first parameter that a heuristic gives

  /// Null without an exception when launches must go through `run`.
  static Stack *build(PyObject *top);
  bool isUnchanged() const;
  int traverse(visitproc visit, void *arg) const;
  int parameterOf(PyObject *name) const;

private:
  bool addLayer(PyObject *object, PyObject *run);
  bool addRules(Layer &layer);
  void addSteps();
};

//===--- building
//--------------------------------------------------------------------------------===//

int Stack::parameterOf(PyObject *name) const {
  const std::vector<Parameter> &parameters = function->parameterList();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name || PyUnicode_Compare(parameters[i].name, name) == 0)
      return int(i);
  return -1;
}

bool Stack::addLayer(PyObject *object, PyObject *run) {
  auto get = [&](const char *name) { return attribute(object, name); };
  Layer layer{};
  layer.object = object;
  layer.run = run;
  layer.version = asKernel(object)->version;
  layer.isTuner = run == registry().tunerRun;
  layer.below = get("fn");
  if (layer.isTuner) {
    layer.configs = get("configs");
    layer.keys = get("keys");
    layer.cache = get("cache");
    if (!layer.configs || !PyList_Check(layer.configs.get()) || !layer.keys ||
        !PyList_Check(layer.keys.get()) || !layer.cache || !PyDict_Check(layer.cache.get()))
      return false;
    layer.isSingle = PyList_Size(layer.configs.get()) == 1;
    Ref watched = attribute(layer.cache.get(), "_is_watched");
    layer.isWatched = watched.get() == Py_True;
    for (Py_ssize_t i = 0; i < PyList_Size(layer.keys.get()); ++i) {
      layer.keyNames.push_back(Ref::share(PyList_GetItem(layer.keys.get(), i)));
      if (!PyUnicode_Check(layer.keyNames.back().get()))
        return false;
    }
  } else {
    layer.values = get("values");
    if (!layer.values || !PyDict_Check(layer.values.get()))
      return false;
  }
  layers.push_back(std::move(layer));
  return true;
}

bool Stack::addRules(Layer &layer) {
  PyObject *name = nullptr, *callable = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(layer.values.get(), &position, &name, &callable);) {
    if (!PyUnicode_Check(name))
      return false;
    Rule &rule = layer.rules.emplace_back();
    rule.name = Ref::share(name);
    rule.callable = Ref::share(callable);
    rule.parameter = parameterOf(name);
  }
  for (Rule &rule : layer.rules) {
    // None, or (names of values, names compared with None, guards).
    Ref reads =
        Ref::take(PyObject_CallFunctionObjArgs(registry().ruleReads, rule.callable.get(), nullptr));
    if (!reads)
      return false;
    rule.isProven = PyTuple_Check(reads.get());
    if (!rule.isProven)
      continue;
    rule.values = Ref::share(PyTuple_GetItem(reads.get(), 0));
    rule.nones = Ref::share(PyTuple_GetItem(reads.get(), 1));
    PyObject *guards = PyTuple_GetItem(reads.get(), 2);
    for (Py_ssize_t i = 0; i < PyTuple_Size(guards); ++i)
      rule.guards.push_back(Guard::of(PyTuple_GetItem(guards, i)));
  }
  return true;
}

void Stack::addSteps() {
  auto current = [&]() -> Step & {
    if (steps.empty() || steps.back().asked) {
      Step &step = steps.emplace_back();
      step.needs.resize(function->parameterList().size());
      step.table.resize(8);
    }
    return steps.back();
  };
  auto need = [&](Step &step, PyObject *name, Need what) {
    int parameter = parameterOf(name);
    if (parameter >= 0)
      step.needs[size_t(parameter)] |= what;
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer &layer = layers[i];
    if (layer.isTuner) {
      Step &step = current();
      step.parts.push_back({i, -1});
      if (layer.isSingle)
        continue;
      for (uint8_t &bits : step.needs)
        bits |= NeedElements;
      for (const Ref &name : layer.keyNames)
        need(step, name.get(), NeedValue);
    }
    for (size_t number = 0; number < layer.rules.size(); ++number) {
      const Rule &rule = layer.rules[number];
      if (rule.parameter >= 0)
        firstRuled = std::min(firstRuled, Py_ssize_t(rule.parameter));
      if (!rule.isProven) {
        Step &step = steps.emplace_back();
        step.parts.push_back({i, int(number)});
        step.asked = &rule;
        continue;
      }
      Step &step = current();
      step.parts.push_back({i, int(number)});
      for (Py_ssize_t j = 0; j < PyTuple_Size(rule.values.get()); ++j)
        need(step, PyTuple_GetItem(rule.values.get(), j), NeedValue);
      for (Py_ssize_t j = 0; j < PyTuple_Size(rule.nones.get()); ++j)
        need(step, PyTuple_GetItem(rule.nones.get(), j), NeedNoneness);
    }
  }
}

Stack *Stack::build(PyObject *top) {
  std::unique_ptr<Stack> stack(new Stack);
  PyObject *object = top;
  for (;;) {
    if (!object || !isKernelBase(object) || asKernel(object)->indirect)
      return nullptr;
    PyObject *run = runOf(object);
    if (run && run == registry().jitRun)
      break;
    if (!run || (run != registry().tunerRun && run != registry().rulesRun) ||
        stack->layers.size() > 30 || !stack->addLayer(object, run))
      return nullptr;
    object = stack->layers.back().below.get();
  }
  stack->kernel = Ref::share(object);
  stack->function = functionOf(object);
  stack->kernelVersion = asKernel(object)->version;
  if (!stack->function || stack->function->parameterList().size() > mostParameters)
    return nullptr;
  for (Layer &layer : stack->layers) {
    Ref names = attribute(layer.object, "arg_names");
    const std::vector<Parameter> &parameters = stack->function->parameterList();
    if (!names || !PyList_Check(names.get()) ||
        size_t(PyList_Size(names.get())) != parameters.size())
      return nullptr;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (stack->parameterOf(PyList_GetItem(names.get(), Py_ssize_t(i))) != int(i))
        return nullptr;
    if (!layer.isTuner && !stack->addRules(layer))
      return nullptr;
  }
  stack->addSteps();
  return stack.release();
}

bool Stack::isUnchanged() const {
  for (size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].isUnchanged() || (i > 0 && runOf(layers[i].object) != layers[i].run))
      return false;
  const KernelBaseObject *base = asKernel(kernel.get());
  return base->version == kernelVersion && base->function == function && !base->indirect &&
         runOf(kernel.get()) == registry().jitRun;
}

int Stack::traverse(visitproc visit, void *arg) const {
  Py_VISIT(kernel.get());
  for (const Layer &layer : layers) {
    for (const Ref *ref : {&layer.below, &layer.configs, &layer.keys, &layer.cache, &layer.values})
      Py_VISIT(ref->get());
    for (const Rule &rule : layer.rules) {
      Py_VISIT(rule.callable.get());
      for (const Guard &guard : rule.guards) {
        Py_VISIT(guard.container.get());
        Py_VISIT(guard.value.get());
      }
    }
  }
  for (const Step &step : steps)
    for (const Addition *addition : step.table) {
      if (!addition || addition->holds > 1) // a launch holds the references as well
        continue;
      for (const Ref &ref : addition->inKey)
        Py_VISIT(ref.get());
      for (const Given &given : addition->given)
        Py_VISIT(given.value.get());
      for (const Choice &choice : addition->choices) {
        for (const Ref *ref : {&choice.config, &choice.key, &choice.kwargs, &choice.preHook})
          Py_VISIT(ref->get());
        for (const auto &[name, value] : choice.items)
          Py_VISIT(value.get());
      }
    }
  return 0;
}

int traverse(const Stack &stack, visitproc visit, void *arg) {
  return stack.holds > 1 ? 0 : stack.traverse(visit, arg);
}

void drop(Stack *stack) {
  Held<Stack>::release(stack);
}

void choicesChanged() {
  ++generation;
}

//===--- launching
//--------------------------------------------------------------------------------===//

namespace {

/// Provides the arguments for `nargs` while Python code of the user runs.
struct InFlight {
  const Stack &stack;
  const Call &call;
  Ref args; ///< as a tuple, once someone has asked
  InFlight *outer;

  static thread_local InFlight *innermost;
  InFlight(const Stack &stack, const Call &call)
      : stack(stack), call(call), outer(std::exchange(innermost, this)) {}
  InFlight(const InFlight &) = delete;
  ~InFlight() { innermost = outer; }
};
thread_local InFlight *InFlight::innermost = nullptr;

/// How a step ended.
enum class Outcome {
  Done,
  Failed, ///< with an exception set
  Leave   ///< nothing has happened: `run` must be called
};

class StackedLaunch {
public:
  StackedLaunch(Stack &stack, PyObject *grid, const Call &call)
      : stack(stack), function(*stack.function), grid(grid), call(call),
        count(function.parameterList().size()), frame(function), bound(count), arguments(count) {}

  PyObject *run(bool &done);

private:
  bool bind();
  Addition *recall();
  void remember(Addition &addition);
  Outcome apply(Step &step);
  Outcome ask(const Step &step);
  bool makeKey(const Step &step);
  void word(uint64_t value) { key[keySize++] = value; }
  bool elementsWord(size_t index);
  void valueWords(uint64_t tag, PyObject *object, const nrd_arg *argument);
  Outcome fill(const Step &step, Addition &addition);
  Outcome fillChoice(Addition &addition, size_t layer, PyObject *soFar);
  Outcome fillRule(Addition &addition, size_t layer, const Rule &rule, PyObject *soFar);
  void add(Addition &addition, size_t layer, int parameter, PyObject *name, PyObject *value);
  Outcome use(Addition &addition);
  Outcome callPreHook(const Addition &addition, const Choice &choice);
  bool convertAgain(ArgumentScope &scope);
  Ref keywordsSoFar();
  Ref everythingSoFar(PyObject *keywords);
  PyObject *launch();

  Stack &stack;
  Function &function;
  PyObject *grid;
  const Call &call;
  size_t count;
  LaunchFrame frame;
  OptionSet *readyOptions = nullptr;
  uint64_t present = 0;   ///< a bit for each parameter that has a value
  uint64_t ready = 0;     ///< a bit for each parameter whose argument an addition holds
  size_t alreadyRead = 0; ///< of the positional arguments, by `recall`
  bool sawPython = false; ///< user code ran after the arguments were read
  size_t keySize = 0;
  std::vector<Ref> kept;
  Few<Addition *, 2> used;
  std::vector<std::pair<Ref, Ref>> results; ///< what earlier steps gave, by name
  Few<PyObject *, 8> inKey; ///< objects whose address is in the key; kept by the call
  Keywords options;
  Slots<PyObject *> bound;
  Slots<nrd_arg> arguments;
  ArgumentScope scope;
  uint64_t key[mostWords];
};

bool StackedLaunch::bind() {
  static PyObject *const gridName = interned("grid");
  static PyObject *const warmupName = interned("warmup");
  if (!function.bindGiven(call, bound.get(), options))
    return false;
  for (size_t i = 0; i < options.size(); ++i)
    if (PyUnicode_Compare(options[i].first, gridName) == 0 ||
        PyUnicode_Compare(options[i].first, warmupName) == 0)
      return false;
  if (Py_ssize_t(call.positional) >
      stack.firstRuled) // what a heuristic gives is given by position, too
    return false;
  for (size_t i = 0; i < count; ++i) {
    if (!bound[i])
      continue;
    present |= uint64_t(1) << i;
    if (i >= alreadyRead && !function.toArgument(i, bound[i], scope, arguments[i]))
      return false;
  }
  return true;
}

/// Whether the driver must say what it means.
static bool isTensorOfHost(const nrd_arg &argument) {
  return argument.kind == NRD_ARG_POINTER &&
         (argument.memory == NRD_MEMORY_HOST_TENSOR || argument.memory == NRD_MEMORY_UNPROVEN);
}

bool StackedLaunch::elementsWord(size_t index) {
  PyObject *object = bound[index];
  // A tuner tells kinds of devices apart, and thus places that mean another one.
  const nrd_arg &argument = arguments[index];
  uint64_t place = argument.memory >= NRD_MEMORY_CUDA                               ? 1
                   : isTensorOfHost(argument) && nrd_cuda_is_pinned(argument.p) > 0 ? 2
                                                                                    : 0;
  switch (elementsOf(object)) {
  case Elements::None:
    return true;
  case Elements::Plain:
    // Addresses have 48 bits, of which the lowest are 0.
    word(uint64_t(reinterpret_cast<uintptr_t>(Py_TYPE(object))) | place | uint64_t(index) << 48 |
         uint64_t(arguments[index].dtype) << 56);
    return true;
  case Elements::Unknown:
    break;
  }
  Ref dtype = attribute(object, "dtype");
  if (!dtype) {
    bool none = !PyErr_Occurred();
    PyErr_Clear();
    return none;
  }
  PyObject *text = PyObject_Str(dtype.get());
  if (!text) {
    PyErr_Clear();
    return false;
  }
  PyUnicode_InternInPlace(&text);
  kept.push_back(Ref::take(text));
  inKey.push_back(text);
  word(place | uint64_t(index) << 48 | uint64_t(0xff) << 56);
  word(reinterpret_cast<uintptr_t>(text));
  return true;
}

void StackedLaunch::valueWords(uint64_t tag, PyObject *object, const nrd_arg *argument) {
  PyTypeObject *type = Py_TYPE(object);
  if (object == Py_None || type == &PyBool_Type) {
    word(tag | 1);
    word(reinterpret_cast<uintptr_t>(object));
    return;
  }
  if (type == &PyLong_Type || type == &PyFloat_Type) {
    nrd_arg made{};
    if (!argument) {
      int overflow = 0;
      made.kind = type == &PyLong_Type ? NRD_ARG_INT : NRD_ARG_FLOAT;
      if (type == &PyFloat_Type)
        made.f = PyFloat_AsDouble(object);
      else
        made.i = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (!overflow)
        argument = &made;
    }
    if (argument && (argument->kind == NRD_ARG_INT || argument->kind == NRD_ARG_UINT ||
                     argument->kind == NRD_ARG_FLOAT)) {
      word(tag | 2 | uint64_t(argument->kind) << 8);
      word(argument->u);
      return;
    }
  }
  word(tag | 3);
  word(reinterpret_cast<uintptr_t>(object));
  inKey.push_back(object);
}

/// False when the inputs cannot be told apart by a key.
bool StackedLaunch::makeKey(const Step &step) {
  keySize = 0;
  inKey.clear();
  if (options.size() > mostOptions)
    return false;
  word(present);
  for (size_t i = 0; i < count; ++i) {
    uint8_t needs = step.needs[i];
    if (!needs || !bound[i])
      continue;
    if ((needs & NeedElements) && !elementsWord(i))
      return false;
    uint64_t tag = uint64_t(i) << 48;
    if (needs & NeedValue)
      valueWords(tag, bound[i], &arguments[i]);
    else if (needs & NeedNoneness)
      word(tag | (bound[i] == Py_None ? 4 : 5));
  }
  for (size_t i = 0; i < options.size(); ++i) {
    auto [name, value] = options[i];
    word(reinterpret_cast<uintptr_t>(name));
    inKey.push_back(name);
    valueWords(uint64_t(0xfe) << 48, value, nullptr);
  }
  return true;
}

Ref StackedLaunch::keywordsSoFar() {
  Ref keywords = call.kwargs();
  bool ok = keywords && PyDict_SetItemString(keywords.get(), "grid", grid) == 0 &&
            PyDict_SetItemString(keywords.get(), "warmup", Py_False) == 0;
  for (const auto &[name, value] : results)
    ok = ok && PyDict_SetItem(keywords.get(), name.get(), value.get()) == 0;
  return ok ? keywords : Ref();
}

Ref StackedLaunch::everythingSoFar(PyObject *keywords) {
  Ref all = Ref::take(PyDict_New());
  bool ok = bool(all);
  for (size_t i = 0; ok && i < call.positional; ++i)
    ok = PyDict_SetItem(all.get(), function.parameterList()[i].name, call.values[i]) == 0;
  ok = ok && PyDict_Update(all.get(), keywords) == 0;
  return ok ? all : Ref();
}

void StackedLaunch::add(Addition &addition, size_t layer, int parameter, PyObject *name,
                        PyObject *value) {
  // A later heuristic of the same name replaces what an earlier one gave.
  for (Given &given : addition.given)
    if (PyUnicode_Compare(given.name.get(), name) == 0) {
      given.value = Ref::share(value);
      given.layer = layer;
      return;
    }
  addition.given.push_back({layer, parameter, Ref::share(name), Ref::share(value)});
}

Outcome StackedLaunch::fillChoice(Addition &addition, size_t number, PyObject *soFar) {
  const Layer &layer = stack.layers[number];
  Ref args = call.args();
  Ref pair = Ref::take(
      args ? PyObject_CallMethod(layer.object, "_config_for", "OO", args.get(), soFar) : nullptr);
  if (!pair)
    return Outcome::Failed;
  Choice choice{};
  choice.layer = number;
  choice.config = Ref::share(PyTuple_GetItem(pair.get(), 0));
  choice.key = Ref::share(PyTuple_GetItem(pair.get(), 1));
  choice.cacheSize = PyDict_Size(layer.cache.get());
  Ref all = Ref::take(PyObject_CallMethod(choice.config.get(), "all_kwargs", nullptr));
  if (!all)
    return Outcome::Failed;
  choice.kwargs = attribute(choice.config.get(), "kwargs");
  choice.preHook = attribute(choice.config.get(), "pre_hook");
  PyErr_Clear();
  if (choice.preHook.get() == Py_None)
    choice.preHook = Ref();
  PyObject *name = nullptr, *value = nullptr;
  if (choice.kwargs && !PyDict_Check(choice.kwargs.get()))
    return Outcome::Leave;
  if (choice.kwargs)
    for (Py_ssize_t at = 0; PyDict_Next(choice.kwargs.get(), &at, &name, &value);)
      choice.items.push_back({Ref::share(name), Ref::share(value)});
  if (!PyDict_Check(all.get()))
    return Outcome::Leave;
  for (Py_ssize_t at = 0; PyDict_Next(all.get(), &at, &name, &value);) {
    if (!PyUnicode_Check(name))
      return Outcome::Leave;
    int parameter = stack.parameterOf(name);
    // Given twice: `run` has the words for it.
    if (PyDict_GetItemWithError(soFar, name) ||
        (parameter >= 0 && size_t(parameter) < call.positional))
      return Outcome::Leave;
    add(addition, number, parameter, name, value);
  }
  if (PyDict_Update(soFar, all.get()) < 0)
    return Outcome::Failed;
  addition.choices.push_back(std::move(choice));
  return Outcome::Done;
}

Outcome StackedLaunch::fillRule(Addition &addition, size_t layer, const Rule &rule,
                                PyObject *soFar) {
  Ref all = everythingSoFar(soFar);
  if (!all)
    return Outcome::Failed;
  for (Py_ssize_t i = 0; i < PyTuple_Size(rule.values.get()); ++i) {
    PyObject *value = PyDict_GetItemWithError(all.get(), PyTuple_GetItem(rule.values.get(), i));
    if (value && !isPrimitive(value)) // whose operators may do anything
      addition.isReusable = false;
  }
  Ref result = Ref::take(PyObject_CallFunctionObjArgs(rule.callable.get(), all.get(), nullptr));
  if (!result || PyDict_SetItem(soFar, rule.name.get(), result.get()) < 0)
    return Outcome::Failed;
  add(addition, layer, rule.parameter, rule.name.get(), result.get());
  return Outcome::Done;
}

/// Asks the decorators of the step.
Outcome StackedLaunch::fill(const Step &step, Addition &addition) {
  inKey.each([&](PyObject *object) { addition.inKey.push_back(Ref::share(object)); });
  InFlight visible(stack, call);
  Ref soFar = keywordsSoFar();
  if (!soFar)
    return Outcome::Failed;
  for (auto [layer, rule] : step.parts) {
    Outcome outcome =
        rule < 0 ? fillChoice(addition, layer, soFar.get())
                 : fillRule(addition, layer, stack.layers[layer].rules[size_t(rule)], soFar.get());
    if (outcome != Outcome::Done)
      return outcome;
  }
  for (Given &given : addition.given) {
    if (given.parameter < 0 || !isPrimitive(given.value.get()))
      continue;
    if (!function.toArgument(size_t(given.parameter), given.value.get(), addition.scope,
                             given.argument))
      return Outcome::Failed;
    given.isReady = true;
  }
  if (stack.steps.size() == 1) {
    // All options of the launch: those of the call are in the key.
    Keywords all = options;
    for (const Given &given : addition.given)
      if (given.parameter < 0)
        all.push_back({given.name.get(), given.value.get()});
    addition.options = function.optionsFor(all);
    if (!addition.options)
      return Outcome::Failed;
  }
  addition.generation = generation;
  addition.isPlain =
      addition.options &&
      std::all_of(addition.given.begin(), addition.given.end(),
                  [](const Given &given) { return given.isReady || given.parameter < 0; }) &&
      std::none_of(addition.choices.begin(), addition.choices.end(),
                   [](const Choice &choice) { return bool(choice.preHook); });
  return Outcome::Done;
}

Outcome StackedLaunch::callPreHook(const Addition &addition, const Choice &choice) {
  Ref keywords = keywordsSoFar();
  bool ok = bool(keywords);
  for (const Given &given : addition.given)
    if (given.layer <= choice.layer)
      ok = ok && PyDict_SetItem(keywords.get(), given.name.get(), given.value.get()) == 0;
  Ref all = ok ? everythingSoFar(keywords.get()) : Ref();
  if (!all)
    return Outcome::Failed;
  sawPython = true;
  InFlight visible(stack, call);
  Ref result = Ref::take(PyObject_CallFunctionObjArgs(choice.preHook.get(), all.get(), nullptr));
  return result ? Outcome::Done : Outcome::Failed;
}

/// Puts what an addition gives in its places.
Outcome StackedLaunch::use(Addition &addition) {
  static PyObject *const bestConfig = interned("best_config");
  for (const Choice &choice : addition.choices) {
    PyObject *tuner = stack.layers[choice.layer].object;
    if (asKernel(tuner)->best != choice.config.get() &&
        PyObject_SetAttr(tuner, bestConfig, choice.config.get()) < 0)
      return Outcome::Failed;
    if (choice.preHook)
      if (Outcome outcome = callPreHook(addition, choice); outcome != Outcome::Done)
        return outcome;
  }
  bool more = stack.steps.size() > 1;
  for (const Given &given : addition.given) {
    if (more)
      results.push_back({given.name, given.value});
    if (given.parameter < 0) {
      if (!addition.options)
        options.push_back({given.name.get(), given.value.get()});
      continue;
    }
    auto index = size_t(given.parameter);
    bound[index] = given.value.get();
    present |= uint64_t(1) << index;
    if (given.isReady) {
      arguments[index] = given.argument;
      ready |= uint64_t(1) << index;
    } else if (!function.toArgument(index, bound[index], scope, arguments[index])) {
      return Outcome::Failed;
    }
  }
  readyOptions = addition.options;
  return Outcome::Done;
}

Outcome StackedLaunch::ask(const Step &step) {
  const Rule &rule = *step.asked;
  InFlight visible(stack, call);
  sawPython = true;
  Ref keywords = keywordsSoFar();
  Ref all = keywords ? everythingSoFar(keywords.get()) : Ref();
  Ref result = Ref::take(all ? PyObject_CallFunctionObjArgs(rule.callable.get(), all.get(), nullptr)
                             : nullptr);
  if (!result)
    return Outcome::Failed;
  results.push_back({rule.name, result});
  if (rule.parameter < 0) {
    for (size_t i = 0; i < options.size(); ++i)
      if (PyUnicode_Compare(options[i].first, rule.name.get()) == 0) {
        options[i].second = result.get();
        kept.push_back(std::move(result));
        return Outcome::Done;
      }
    options.push_back({rule.name.get(), result.get()});
  } else {
    auto index = size_t(rule.parameter);
    bound[index] = result.get();
    present |= uint64_t(1) << index;
    ready &= ~(uint64_t(1) << index);
    if (!function.toArgument(index, bound[index], scope, arguments[index]))
      return Outcome::Failed;
  }
  kept.push_back(std::move(result));
  return Outcome::Done;
}

/// A sum of products with different odd factors, so that no step waits for the one before.
uint64_t hashOf(const uint64_t *words, size_t size) {
  uint64_t sum = size, factor = 0x9e3779b97f4a7c15ull;
  for (size_t i = 0; i < size; ++i, factor += 0x5851f42d4c957f2eull)
    sum += (words[i] ^ words[i] >> 32) * factor;
  sum = (sum ^ sum >> 32) * 0xd6e8feb86659fd93ull;
  return sum ^ sum >> 32;
}

Outcome StackedLaunch::apply(Step &step) {
  if (step.asked)
    return ask(step);
  bool hasKey = makeKey(step);
  uint64_t hash = hashOf(key, keySize);
  Addition *addition = hasKey ? step.slot(key, keySize, hash) : nullptr;
  if (addition && addition->isCurrent(stack.layers)) [[likely]] {
    ++addition->holds;
    used.push_back(addition);
    return use(*addition);
  }
  std::unique_ptr<Addition> made(new Addition);
  made->hash = hash;
  made->key.assign(key, key + keySize);
  made->isReusable = hasKey;
  if (Outcome outcome = fill(step, *made); outcome != Outcome::Done)
    return outcome;
  addition = made.release(); // with one hold: the launch's
  used.push_back(addition);
  if (addition->isReusable) {
    ++addition->holds;
    stack.memory.addition = stack.memory.missed = nullptr; // they may be what makes room
    step.insert(addition);
  }
  return use(*addition);
}

inline uint64_t headOf(const nrd_arg &arg) {
  uint64_t head;
  std::memcpy(&head, &arg, sizeof head);
  return head;
}

/// Reads the arguments into `arguments` and `bound` while they look like those of the last launch,
/// and counts them in `read`. Whether all do.
inline bool readAlike(const Memory &memory, const Call &call, nrd_arg *arguments, PyObject **bound,
                      size_t &read) {
  const uint64_t *value = memory.values.data();
  size_t i = 0;
  for (const Look &look : memory.looks) {
    PyObject *object = call.values[i];
    nrd_arg &out = arguments[i];
    if (Py_TYPE(object) != look.type)
      return false;
    if (!toUsualArgument(object, out)) {
      if (object == Py_None) {
        setHead(out, NRD_ARG_NONE);
        out.u = 0;
      } else if (look.type == &PyBool_Type) {
        setHead(out, NRD_ARG_BOOL);
        out.u = object == Py_True;
      } else {
        return false;
      }
    }
    bound[i] = object;
    read = ++i;
    if ((look.headMatters && headOf(out) != look.head) || (look.valueMatters && out.u != *value++))
      return false;
  }
  return true;
}

/// The addition of the last launch, with a hold, when this one's arguments look the same. Otherwise
/// `bind` goes on with those that are left.
Addition *StackedLaunch::recall() {
  Addition *addition = stack.memory.addition;
  if (!addition || call.names || call.positional != stack.memory.looks.size() ||
      !readAlike(stack.memory, call, arguments.get(), bound.get(), alreadyRead))
    return nullptr;
  std::fill(bound.get() + call.positional, bound.get() + count, nullptr);
  present = call.positional == 64 ? ~uint64_t(0) : (uint64_t(1) << call.positional) - 1;
  ++addition->holds;
  if (addition->isCurrent(stack.layers)) [[likely]]
    return addition;
  Held<Addition>::release(addition);
  return nullptr;
}

/// Makes `recall` know launches like this one, when the last one was like it, too.
void StackedLaunch::remember(Addition &addition) {
  Memory &memory = stack.memory;
  if (!addition.isReusable || &addition == memory.addition || call.names || !addition.options)
    return;
  if (std::exchange(memory.missed, &addition) != &addition)
    return;
  Step &step = stack.steps.front();
  // User code may have run since it was found: it may be there no more.
  if (step.slot(addition.key.data(), addition.key.size(), addition.hash) != &addition)
    return;
  std::vector<Look> looks;
  std::vector<uint64_t> values;
  for (size_t i = 0; i < call.positional; ++i) {
    PyObject *object = call.values[i];
    PyTypeObject *type = Py_TYPE(object);
    bool isTensor = tensorClassOf(type);
    bool isNumber = type == &PyLong_Type || type == &PyFloat_Type;
    if (!isTensor && object != Py_None && type != &PyBool_Type &&
        !(isNumber && !function.parameterList()[i].pointee))
      return;
    if (isTensor && ((step.needs[i] & NeedValue) || function.parameterList()[i].isConstexpr))
      return;
    // A tuner distinguishes pinned memory, so memory that may be pinned is checked at each launch.
    if ((step.needs[i] & NeedElements) && isTensorOfHost(arguments[i]) &&
        nrd_cuda_is_pinned(nullptr) >= 0)
      return;
    // None-ness and, of what has no elements, the elements follow from the class.
    Look look{type, uint32_t(headOf(arguments[i])), !isTensor || (step.needs[i] & NeedElements),
              (step.needs[i] & NeedValue) != 0};
    if (look.headMatters && headOf(arguments[i]) != look.head)
      return;
    looks.push_back(look);
    if (look.valueMatters)
      values.push_back(arguments[i].u);
  }
  memory.addition = &addition;
  memory.looks = std::move(looks);
  memory.values = std::move(values);
  size_t given = std::count_if(addition.given.begin(), addition.given.end(),
                               [](const Given &each) { return each.parameter >= 0; });
  memory.isWhole = addition.isPlain && call.positional + given == count;
}

/// User code may have changed what arguments refer to (a descriptor's block, a tensor's storage).
bool StackedLaunch::convertAgain(ArgumentScope &again) {
  for (size_t i = 0; i < count; ++i)
    if (!(ready >> i & 1) && !isPrimitive(bound[i]) &&
        !function.toArgument(i, bound[i], again, arguments[i]))
      return false;
  return true;
}

PyObject *StackedLaunch::launch() {
  uint64_t all = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
  if (present != all) {
    if (!function.bindDefaults(bound.get()))
      return nullptr;
    for (size_t i = 0; i < count; ++i)
      if (!(present >> i & 1) && !function.toArgument(i, bound[i], scope, arguments[i]))
        return nullptr;
  }
  OptionSet *chosen = readyOptions ? readyOptions : function.optionsFor(options);
  if (!chosen)
    return nullptr;
  nrd_launch how{};
  how.num_threads = chosen->threads;
  how.checked = chosen->checked;
  {
    InFlight visible(stack, call);
    bool isHarmless;
    if (!function.resolveGrid(grid, bound.get(), how.grid, isHarmless))
      return nullptr;
    sawPython |= !isHarmless;
  }
  std::optional<ArgumentScope> again;
  if (sawPython && !convertAgain(again.emplace()))
    return nullptr;
  return function.dispatch(frame, bound.get(), arguments.get(), *chosen, &how);
}

PyObject *StackedLaunch::run(bool &done) {
  PyObject *result = nullptr;
  Outcome outcome;
  if (Addition *addition = recall()) [[likely]] {
    used.push_back(addition);
    outcome = use(*addition);
  } else {
    present = 0;
    outcome = bind() ? Outcome::Done : Outcome::Leave;
    for (Step &step : stack.steps)
      if (outcome == Outcome::Done)
        outcome = apply(step);
    if (outcome == Outcome::Done && stack.steps.size() == 1 && used.size() == 1)
      remember(*used[0]);
  }
  if (outcome == Outcome::Leave) {
    PyErr_Clear();
  } else {
    done = true;
    result = outcome == Outcome::Done ? launch() : nullptr;
  }
  used.each([](Addition *addition) { Held<Addition>::release(addition); });
  return result;
}

/// Reads again what user code may have changed: all but numbers and texts, and but what the
/// addition holds.
bool convertOthers(Function &function, const Addition &addition, PyObject *const *bound,
                   ArgumentScope &scope, nrd_arg *arguments) {
  for (size_t i = 0, count = function.parameterList().size(); i < count; ++i)
    if (!isPrimitive(bound[i]) && !function.toArgument(i, bound[i], scope, arguments[i]))
      return false;
  for (const Given &given : addition.given)
    if (given.parameter >= 0)
      arguments[given.parameter] = given.argument;
  return true;
}

/// A launch like the last one whose addition is whole: the same as `StackedLaunch` does, without
/// what that collects on the way. Null with `done` unset where it is another one; nothing has
/// happened then.
PyObject *launchAlike(Stack &stack, PyObject *grid, const Call &call, bool &done) {
  Memory &memory = stack.memory;
  if (!memory.addition || !memory.isWhole || call.names || call.positional != memory.looks.size())
      [[unlikely]]
    return nullptr;
  Function &function = *stack.function;
  size_t count = function.parameterList().size(), read;
  Slots<PyObject *> bound(count);
  Slots<nrd_arg> arguments(count);
  if (!readAlike(memory, call, arguments.get(), bound.get(), read)) [[unlikely]]
    return nullptr;
  Held<Addition> addition(memory.addition);
  if (!addition->isCurrent(stack.layers)) [[unlikely]]
    return nullptr;
  for (const Choice &choice : addition->choices)
    if (asKernel(stack.layers[choice.layer].object)->best != choice.config.get()) [[unlikely]]
      return nullptr;
  for (const Given &given : addition->given)
    if (given.parameter >= 0) {
      bound[size_t(given.parameter)] = given.value.get();
      arguments[size_t(given.parameter)] = given.argument;
    }
  done = true;
  nrd_launch how{};
  how.num_threads = addition->options->threads;
  how.checked = addition->options->checked;
  LaunchFrame frame(function);
  ArgumentScope scope;
  bool isHarmless;
  {
    InFlight visible(stack, call);
    if (!function.resolveGrid(grid, bound.get(), how.grid, isHarmless)) [[unlikely]]
      return nullptr;
  }
  if (!isHarmless && !convertOthers(function, *addition, bound.get(), scope, arguments.get()))
      [[unlikely]]
    return nullptr;
  return function.dispatch(frame, bound.get(), arguments.get(), *addition->options, &how);
}

/// Out of line: what most launches do not need should not be near.
[[gnu::noinline]] PyObject *launchOther(Stack &stack, PyObject *grid, const Call &call,
                                        bool &done) {
  StackedLaunch launch(stack, grid, call);
  return launch.run(done);
}

Stack *currentStack(PyObject *kernel) {
  Stack *&known = asKernel(kernel)->stack;
  if (known && known->isUnchanged()) [[likely]]
    return known;
  Stack *built = Stack::build(kernel);
  PyErr_Clear(); // what is wrong will be said by `run`
  drop(std::exchange(known, built));
  return built;
}

} // namespace

PyObject *argumentsInFlight(PyObject *decorator) {
  for (InFlight *frame = InFlight::innermost; frame; frame = frame->outer)
    for (const Layer &layer : frame->stack.layers)
      if (layer.object == decorator) {
        if (!frame->args)
          frame->args = frame->call.args();
        return frame->args.get();
      }
  return Py_None;
}

PyObject *launchStacked(PyObject *kernel, PyObject *grid, const Call &call, bool &done) {
  PyObject *hooks = registry().launchHooks;
  if ((hooks && hooks != Py_None) || !registry().ruleReads)
    return nullptr;
  Held<Stack> stack(currentStack(kernel));
  if (!stack)
    return nullptr;
  if (PyObject *result = launchAlike(*stack, grid, call, done); done) [[likely]]
    return result;
  return launchOther(*stack, grid, call, done);
}

} // namespace nereid::python
