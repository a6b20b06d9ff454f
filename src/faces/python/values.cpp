#include "faces/python/values.h"

#include "faces/python/errors.h"
#include "faces/python/function.h"

#include <cstring>
#include <unordered_map>

namespace nereid::python {

CompilationPtr currentCompilation() {
  LaunchFrame *innermost = LaunchFrame::innermost;
  if (!innermost)
    return nullptr;
  if (!innermost->compilation) {
    innermost->compilation = std::make_shared<Compilation>();
    innermost->compilation->root = &innermost->root;
  }
  return innermost->compilation;
}

//===--- handles
//---------------------------------------------------------------------------------===//

namespace {

struct HandleObject {
  PyObject_HEAD nrd_value *value;
  CompilationPtr *compilation;
};

struct SemanticObject {
  PyObject_HEAD CompilationPtr *compilation;
};

PyTypeObject *handleType = nullptr;
PyTypeObject *semanticType = nullptr;

void freeInstance(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  auto *release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(self);
  Py_DECREF(type);
}

void handleDealloc(PyObject *self) {
  auto *handle = reinterpret_cast<HandleObject *>(self);
  nrd_value_free(handle->value);
  delete handle->compilation;
  freeInstance(self);
}

PyObject *handleRepr(PyObject *self) {
  auto *handle = reinterpret_cast<HandleObject *>(self);
  if (!(*handle->compilation)->alive)
    return PyUnicode_FromString("<handle of a tensor whose compilation has ended>");
  return PyUnicode_FromFormat("<handle of a tensor of type %s>",
                              nrd_value_get_type(handle->value, nullptr, nullptr));
}

void semanticDealloc(PyObject *self) {
  delete reinterpret_cast<SemanticObject *>(self)->compilation;
  freeInstance(self);
}

/// `semantic.add(x, y)`: every builtin is a method, bound by `functools.partial`.
PyObject *semanticGetattr(PyObject *self, PyObject *name) {
  if (PyObject *found = PyObject_GenericGetAttr(self, name))
    return found;
  std::string text = textOf(name);
  if (!PyErr_ExceptionMatches(PyExc_AttributeError) || text.empty() || text[0] == '_')
    return nullptr;
  PyErr_Clear();
  if (text == "builder")
    return PyErr_Format(PyExc_AttributeError,
                        "this compiler has no IR builder for Python code: use the functions of "
                        "`tl` with `_semantic=_semantic`");
  Ref core = Ref::take(PyImport_ImportModule("nereid.language.core"));
  return core ? PyObject_CallMethod(core.get(), "_semantic_method", "OO", self, name) : nullptr;
}

Ref makeHandle(const nrd_value *value, const CompilationPtr &compilation) {
  auto *alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(handleType, Py_tp_alloc));
  Ref object = Ref::take(alloc(handleType, 0));
  if (object) {
    auto *handle = reinterpret_cast<HandleObject *>(object.get());
    handle->value = nrd_value_copy(value);
    handle->compilation = new CompilationPtr(compilation);
  }
  return object;
}

/// The value behind `tl.tensor(handle, type)`: the handle's own, or reinterpreted where `type` says
/// so.
ValuePtr tensorValue(PyObject *tensor) {
  Ref handle = Ref::take(PyObject_GetAttrString(tensor, "handle"));
  Ref type = Ref::take(PyObject_GetAttrString(tensor, "type"));
  if (!handle || !type)
    return nullptr;
  if (Py_TYPE(handle.get()) != handleType) {
    PyErr_Format(PyExc_TypeError,
                 "the handle of a tl.tensor must come from another tl.tensor, found %s",
                 typeName(reinterpret_cast<PyObject *>(Py_TYPE(handle.get()))).c_str());
    return nullptr;
  }
  auto *data = reinterpret_cast<HandleObject *>(handle.get());
  if (!(*data->compilation)->alive || !(*data->compilation)->semantic) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this tensor belongs to a compilation that has ended: tensors of a kernel "
                    "cannot be kept");
    return nullptr;
  }
  ValuePtr wanted = toValue(type.get());
  if (!wanted)
    return nullptr;
  if (nrd_value_get_kind(wanted.get()) != NRD_VALUE_TYPE) {
    PyErr_Format(PyExc_TypeError,
                 "the type of a tl.tensor must be a type of the language, found %s",
                 reprOf(type.get()).c_str());
    return nullptr;
  }
  const char *wantedText = nrd_value_get_type(wanted.get(), nullptr, nullptr);
  const char *actual = nrd_value_get_type(data->value, nullptr, nullptr);
  if (std::strcmp(wantedText, actual) == 0)
    return ValuePtr(nrd_value_copy(data->value));
  // Another type for the same bits: `tl.tensor(x.handle, tl.uint32)`.
  ValuePtr scalar(nrd_value_type(wantedText, nullptr, 0));
  ValuePtr yes(nrd_value_bool(1));
  const nrd_value *args[] = {data->value, scalar.get()};
  const char *keywords[] = {"bitcast"};
  const nrd_value *keywordValues[] = {yes.get()};
  nrd_value *result = nullptr;
  if (nrd_error *error = nrd_call_builtin((*data->compilation)->semantic, "cast", args, 2, keywords,
                                          keywordValues, 1, &result)) {
    raise(error, *data->compilation);
    return nullptr;
  }
  return ValuePtr(result);
}

//===--- Python to value
//-------------------------------------------------------------------------===//

ValuePtr integerValue(PyObject *object) {
  int overflow = 0;
  long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (!overflow)
    return ValuePtr(nrd_value_int(small));
  Ref plain = Ref::take(PyNumber_Long(object));
  Ref text = Ref::take(plain ? PyObject_Str(plain.get()) : nullptr);
  return text ? ValuePtr(nrd_value_big_int(textOf(text.get()).c_str())) : nullptr;
}

ValuePtr tupleValue(PyObject *object) {
  Py_ssize_t count = PySequence_Size(object);
  if (count < 0)
    return nullptr;
  std::vector<ValuePtr> items;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref item = Ref::take(PySequence_GetItem(object, i));
    items.push_back(item ? toValue(item.get()) : nullptr);
    if (!items.back())
      return nullptr;
  }
  std::vector<nrd_value *> raw;
  for (const ValuePtr &item : items)
    raw.push_back(item.get());
  const TupleClass *named = tupleClassOf(object);
  ValuePtr tuple(nrd_value_tuple(raw.data(), raw.size(), named ? named->fields.data() : nullptr,
                                 named ? reinterpret_cast<uint64_t>(named->type) : 0));
  if (!tuple)
    PyErr_SetString(PyExc_ValueError, "the tuple is too large for a value of the compilation");
  return tuple;
}

/// A value of a class with fields: of a class of Python's, or (`cls` null) of the library's.
ValuePtr aggregateValue(PyObject *object, PyObject *cls) {
  Ref fields =
      Ref::take(PyObject_GetAttrString(cls ? cls : object, cls ? "__nereid_fields__" : "_fields"));
  Ref names = Ref::take(fields ? PySequence_Tuple(fields.get()) : nullptr);
  Ref title =
      Ref::take(names ? PyObject_GetAttrString(cls ? cls : object, cls ? "__name__" : "_class_name")
                      : nullptr);
  if (!title)
    return nullptr;
  std::vector<ValuePtr> items;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0, n = PyTuple_Size(names.get()); i < n; ++i) {
    PyObject *name = PyTuple_GetItem(names.get(), i);
    Ref item = Ref::take(PyObject_GetAttr(object, name));
    items.push_back(item ? toValue(item.get()) : nullptr);
    if (!items.back())
      return nullptr;
    texts.push_back(textOf(name));
  }
  std::vector<nrd_value *> raw;
  std::vector<const char *> rawNames;
  for (const ValuePtr &item : items)
    raw.push_back(item.get());
  for (const std::string &text : texts)
    rawNames.push_back(text.c_str());
  Py_XINCREF(cls); // classes of values outlive every cache they can be in
  ValuePtr value(nrd_value_aggregate(raw.data(), raw.size(), rawNames.data(),
                                     reinterpret_cast<uint64_t>(cls), textOf(title.get()).c_str()));
  if (!value)
    PyErr_Format(PyExc_TypeError, "the language has no class `%s`", textOf(title.get()).c_str());
  return value;
}

ValuePtr typeValue(PyObject *object) {
  Ref signature = Ref::take(PyObject_GetAttrString(object, "_signature"));
  Ref shape = Ref::take(signature ? PyObject_GetAttrString(object, "_shape") : nullptr);
  if (!shape)
    return nullptr;
  std::vector<int64_t> dims;
  for (Py_ssize_t i = 0, n = PyTuple_Size(shape.get()); i < n; ++i)
    dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape.get(), i)));
  if (PyErr_Occurred())
    return nullptr;
  ValuePtr value(nrd_value_type(textOf(signature.get()).c_str(), dims.data(), dims.size()));
  if (!value)
    PyErr_Format(PyExc_TypeError, "type %s is not known to the compiler", reprOf(object).c_str());
  return value;
}

/// The name under which the library knows a module of ours: "nereid.language.math" is
/// "triton.language.math".
std::string moduleName(PyObject *module) {
  std::string name = textOf(attribute(module, "__name__").get());
  PyErr_Clear();
  if (name == "nereid" || name.rfind("nereid.", 0) == 0)
    return "triton" + name.substr(6);
  return name == "triton" && PyObject_HasAttrString(module, "__nereid_alias__") ? name : "";
}

ValuePtr sliceValue(PyObject *object) {
  ValuePtr parts[3];
  const char *names[] = {"start", "stop", "step"};
  for (int i = 0; i < 3; ++i) {
    Ref part = Ref::take(PyObject_GetAttrString(object, names[i]));
    parts[i] = part ? toValue(part.get()) : nullptr;
    if (!parts[i])
      return nullptr;
  }
  return ValuePtr(nrd_value_slice(parts[0].get(), parts[1].get(), parts[2].get()));
}

bool isInstance(PyObject *object, PyObject *cls) {
  return cls && PyObject_IsInstance(object, cls) == 1;
}

} // namespace

const TupleClass *tupleClassOf(PyObject *tuple) {
  // Lives as long as the process, as the classes in it must.
  static auto *known = new std::unordered_map<PyObject *, std::unique_ptr<TupleClass>>();
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(tuple));
  if (type == reinterpret_cast<PyObject *>(&PyTuple_Type) || type == registry().tupleClass)
    return nullptr;
  auto found = known->find(type);
  if (found != known->end())
    return found->second.get();
  Ref fields = attribute(type, "_fields");
  PyErr_Clear();
  Py_ssize_t count = PySequence_Size(tuple);
  if (!fields || !PyTuple_Check(fields.get()) || PyTuple_Size(fields.get()) != count)
    return nullptr;
  auto made = std::make_unique<TupleClass>();
  made->type = Py_NewRef(type);
  for (Py_ssize_t i = 0; i < count; ++i)
    made->names.push_back(textOf(PyTuple_GetItem(fields.get(), i)));
  for (const std::string &name : made->names)
    made->fields.push_back(name.c_str());
  return known->emplace(type, std::move(made)).first->second.get();
}

const TupleClass *fieldsOf(PyObject *object) {
  // As with named tuples.
  static auto *known = new std::unordered_map<PyObject *, std::unique_ptr<TupleClass>>();
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  auto found = known->find(type);
  if (found != known->end())
    return found->second.get();
  Ref fields = attribute(type, "__nereid_fields__");
  Ref names = Ref::take(fields ? PySequence_Tuple(fields.get()) : nullptr);
  Ref title = Ref::take(names ? PyObject_GetAttrString(type, "__name__") : nullptr);
  PyErr_Clear();
  if (!title)
    return nullptr;
  auto made = std::make_unique<TupleClass>();
  made->type = Py_NewRef(type);
  made->title = textOf(title.get());
  for (Py_ssize_t i = 0; i < PyTuple_Size(names.get()); ++i)
    made->names.push_back(textOf(PyTuple_GetItem(names.get(), i)));
  for (const std::string &name : made->names)
    made->fields.push_back(name.c_str());
  return known->emplace(type, std::move(made)).first->second.get();
}

std::string objectKey(PyObject *object) {
  Ref key = attribute(object, "cache_key");
  PyErr_Clear();
  if (key && PyUnicode_Check(key.get()))
    return textOf(key.get());
  if (Ref own = attribute(object, "__nereid_key__"); own && PyUnicode_Check(own.get()))
    return "class:" + textOf(own.get());
  PyErr_Clear();
  std::string text = typeName(reinterpret_cast<PyObject *>(Py_TYPE(object))) + ":";
  if (Ref code = attribute(object, "__code__")) {
    Ref jit = Ref::take(PyImport_ImportModule("nereid.runtime.jit"));
    if (Ref own =
            Ref::take(jit ? PyObject_CallMethod(jit.get(), "_code_key", "O", object) : nullptr))
      return text + textOf(own.get());
  }
  PyErr_Clear();
  return text + reprOf(object);
}

/// The name of the language that an object stands for; empty for any other.
static std::string languageName(PyObject *object) {
  Ref name = attribute(object, "__nereid_builtin__");
  PyErr_Clear();
  return name && PyUnicode_Check(name.get()) ? textOf(name.get()) : "";
}

bool isOfLanguage(PyObject *object) {
  return !languageName(object).empty();
}

ValuePtr toValue(PyObject *object, bool nameSuffices) {
  Registry &names = registry();
  if (object == Py_None)
    return ValuePtr(nrd_value_none());
  if (PyBool_Check(object))
    return ValuePtr(nrd_value_bool(object == Py_True));
  if (PyLong_CheckExact(object))
    return integerValue(object);
  if (PyFloat_CheckExact(object))
    return ValuePtr(nrd_value_float(PyFloat_AsDouble(object)));
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    return text ? ValuePtr(nrd_value_str(text, size)) : nullptr;
  }
  if (isInstance(object, names.tensorClass))
    return tensorValue(object);
  if (isInstance(object, names.constexprClass)) {
    Ref inner = Ref::take(PyObject_GetAttrString(object, "value"));
    return inner ? toValue(inner.get()) : nullptr;
  }
  if (isInstance(object, names.dtypeClass))
    return typeValue(object);
  if (PyTuple_Check(object) || isInstance(object, names.tupleClass))
    return tupleValue(object);
  if (Function *function = functionOf(object)) {
    keepAlive(object);
    return ValuePtr(nrd_value_function(function->handle()));
  }
  if (PyErr_Occurred())
    return nullptr;
  if (std::string name = languageName(object); !name.empty())
    if (ValuePtr builtin{nameSuffices ? nrd_value_named(name.c_str())
                                      : nrd_value_builtin(name.c_str())})
      return builtin;
  if (PyObject_TypeCheck(object, &PyModule_Type))
    if (std::string name = moduleName(object); !name.empty())
      if (ValuePtr module{nrd_value_module(name.c_str())})
        return module;
  std::string type = typeName(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (type.rfind("numpy.", 0) == 0 && type != "numpy.ndarray")
    if (Ref item = attribute(object, "item")) // numpy's scalars are numbers
      if (Ref number = Ref::take(PyObject_CallNoArgs(item.get()));
          number && Py_TYPE(number.get()) != Py_TYPE(object))
        return toValue(number.get());
  PyErr_Clear();
  if (PySlice_Check(object))
    return sliceValue(object);
  auto *cls = reinterpret_cast<PyObject *>(Py_TYPE(object));
  if (Ref number = attribute(cls, "__nereid_number__")) { // an enumeration of the language
    Ref inner = Ref::take(PyObject_GetAttrString(object, "value"));
    return inner ? toValue(inner.get()) : nullptr;
  }
  PyErr_Clear();
  if (Ref mark = attribute(cls, "__triton_aggregate__"))
    return aggregateValue(object, cls);
  PyErr_Clear();
  if (isInstance(object, names.libraryValue))
    return aggregateValue(object, nullptr);
  if (PyLong_Check(object)) // enumerations and the like: the number, the text
    return integerValue(object);
  if (PyFloat_Check(object))
    return ValuePtr(nrd_value_float(PyFloat_AsDouble(object)));
  if (PyUnicode_Check(object)) {
    std::string text = textOf(object);
    return ValuePtr(nrd_value_str(text.data(), text.size()));
  }
  keepAlive(object);
  return ValuePtr(nrd_value_object(reinterpret_cast<uint64_t>(object), type.c_str(),
                                   objectKey(object).c_str()));
}

//===--- value to Python
//-------------------------------------------------------------------------===//

namespace {

Ref boxedIf(Ref object, bool boxed) {
  if (!object || !boxed)
    return object;
  return Ref::take(PyObject_CallFunctionObjArgs(registry().constexprClass, object.get(), nullptr));
}

Ref typeToPython(const nrd_value *value) {
  const int64_t *shape = nullptr;
  size_t rank = 0;
  std::string signature = nrd_value_get_type(value, &shape, &rank);
  Ref dims = rank ? Ref::take(PyTuple_New(rank)) : Ref::share(Py_None);
  for (size_t i = 0; i < rank; ++i)
    PyTuple_SetItem(dims.get(), i, PyLong_FromLongLong(shape[i]));
  PyObject *make = registered(&Registry::makeType);
  return Ref::take(make ? PyObject_CallFunction(make, "sO", signature.c_str(), dims.get())
                        : nullptr);
}

Ref tupleToPython(const nrd_value *value, bool boxed) {
  size_t count = nrd_value_get_count(value);
  Ref items = Ref::take(PyTuple_New(count));
  for (size_t i = 0; i < count; ++i) {
    ValuePtr item(nrd_value_get_item(value, i));
    Ref object = toPython(item.get(), boxed);
    if (!object)
      return {};
    PyTuple_SetItem(items.get(), i, object.release());
  }
  if (auto *cls = reinterpret_cast<PyObject *>(nrd_value_get_handle(value)))
    return Ref::take(PyObject_CallObject(cls, items.get()));
  if (!boxed)
    return items;
  PyObject *tuple = registered(&Registry::tupleClass);
  return Ref::take(tuple ? PyObject_CallFunctionObjArgs(tuple, items.get(), nullptr) : nullptr);
}

/// The fields of an aggregate are always boxed: that is how its own code put them there.
Ref aggregateToPython(const nrd_value *value) {
  auto *cls = reinterpret_cast<PyObject *>(nrd_value_get_handle(value));
  size_t count = nrd_value_get_count(value);
  Ref items = Ref::take(PyTuple_New(count));
  for (size_t i = 0; items && i < count; ++i) {
    ValuePtr item(nrd_value_get_item(value, i));
    Ref object = toPython(item.get(), /*boxed=*/true);
    if (object && !cls)
      object = Ref::take(Py_BuildValue("sO", nrd_value_get_field(value, i), object.get()));
    if (!object)
      return {};
    PyTuple_SetItem(items.get(), i, object.release());
  }
  Ref title = cls ? Ref::share(cls) : Ref::take(PyUnicode_FromString(nrd_value_get_text(value)));
  PyObject *rebuild = registered(&Registry::rebuilt);
  return Ref::take(title && items && rebuild
                       ? PyObject_CallFunctionObjArgs(rebuild, title.get(), items.get(), nullptr)
                       : nullptr);
}

Ref byPath(const char *module, std::string path) {
  Ref object = Ref::take(PyImport_ImportModule(module));
  while (object && !path.empty()) {
    size_t dot = path.find('.');
    object = Ref::take(PyObject_GetAttrString(object.get(), path.substr(0, dot).c_str()));
    path = dot == std::string::npos ? "" : path.substr(dot + 1);
  }
  return object;
}

Ref tensorToPython(const nrd_value *value) {
  Ref handle = makeHandle(value, currentCompilation());
  Ref type = handle ? typeToPython(value) : Ref();
  PyObject *tensor = type ? registered(&Registry::tensorClass) : nullptr;
  return Ref::take(tensor ? PyObject_CallFunctionObjArgs(tensor, handle.get(), type.get(), nullptr)
                          : nullptr);
}

} // namespace

Ref toPython(const nrd_value *value, bool boxed) {
  switch (nrd_value_get_kind(value)) {
  case NRD_VALUE_NONE:
    return boxedIf(Ref::share(Py_None), boxed);
  case NRD_VALUE_BOOL:
    return boxedIf(Ref::take(PyBool_FromLong(nrd_value_get_bool(value))), boxed);
  case NRD_VALUE_INT: {
    int64_t number = 0;
    if (nrd_value_get_int(value, &number))
      return boxedIf(Ref::take(PyLong_FromLongLong(number)), boxed);
    return boxedIf(Ref::take(PyLong_FromString(nrd_value_get_text(value), nullptr, 10)), boxed);
  }
  case NRD_VALUE_FLOAT:
    return boxedIf(Ref::take(PyFloat_FromDouble(nrd_value_get_float(value))), boxed);
  case NRD_VALUE_STR:
    return boxedIf(Ref::take(PyUnicode_FromString(nrd_value_get_text(value))), boxed);
  case NRD_VALUE_TYPE:
    return typeToPython(value);
  case NRD_VALUE_TUPLE:
    return tupleToPython(value, boxed);
  case NRD_VALUE_AGGREGATE:
    return aggregateToPython(value);
  case NRD_VALUE_TENSOR:
    return tensorToPython(value);
  case NRD_VALUE_FUNCTION:
    if (auto *function = reinterpret_cast<Function *>(nrd_value_get_handle(value)))
      return Ref::share(function->owner());
    PyErr_SetString(PyExc_TypeError,
                    "a function of the language's own library cannot be passed to Python code");
    return {};
  case NRD_VALUE_BUILTIN:
    return byPath("nereid.language", nrd_value_get_text(value));
  case NRD_VALUE_MODULE: {
    std::string name = nrd_value_get_text(value);
    return byPath(("nereid" + name.substr(std::strlen("triton"))).c_str(), "");
  }
  case NRD_VALUE_OBJECT:
    return Ref::share(reinterpret_cast<PyObject *>(nrd_value_get_handle(value)));
  case NRD_VALUE_OTHER:
    break;
  }
  PyErr_Format(PyExc_TypeError, "a value of this kind cannot be passed to Python code: %s",
               nrd_value_get_text(value));
  return {};
}

//===--- the builtin table
//-----------------------------------------------------------------------===//

Ref semanticObject(const CompilationPtr &compilation) {
  auto *alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(semanticType, Py_tp_alloc));
  Ref object = Ref::take(alloc(semanticType, 0));
  if (object)
    reinterpret_cast<SemanticObject *>(object.get())->compilation = new CompilationPtr(compilation);
  return object;
}

ValuePtr toArgument(PyObject *object) {
  Ref pairs;
  if (PyDict_Check(object)) {
    pairs = Ref::take(PyDict_Items(object));
    object = pairs.get();
  }
  if (!object || !PyList_Check(object))
    return object ? toValue(object) : ValuePtr();
  Ref items = Ref::take(PyList_AsTuple(object));
  return items ? toValue(items.get()) : ValuePtr();
}

PyObject *callBuiltin(PyObject *, PyObject *arguments) {
  PyObject *semantic = nullptr, *args = nullptr, *keywords = nullptr;
  const char *name = nullptr;
  if (!PyArg_ParseTuple(arguments, "OsO!O!:call_builtin", &semantic, &name, &PyTuple_Type, &args,
                        &PyDict_Type, &keywords))
    return nullptr;
  CompilationPtr compilation = currentCompilation();
  if (Py_TYPE(semantic) == semanticType)
    compilation = *reinterpret_cast<SemanticObject *>(semantic)->compilation;
  else if (semantic != Py_None)
    return PyErr_Format(PyExc_TypeError, "`_semantic` must be what the compiler passed, found %s",
                        typeName(reinterpret_cast<PyObject *>(Py_TYPE(semantic))).c_str());
  if (!compilation || !compilation->semantic || !compilation->alive)
    return PyErr_Format(PyExc_ValueError,
                        "Did you forget to add @triton.jit ? `tl.%s` only has a meaning inside a "
                        "kernel (`_semantic` "
                        "argument must be provided outside of JIT functions.)",
                        name);
  std::vector<ValuePtr> owned;
  std::vector<const nrd_value *> positional, keywordValues;
  std::vector<std::string> keywordNames;
  for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n; ++i) {
    owned.push_back(toArgument(PyTuple_GetItem(args, i)));
    if (!owned.back())
      return nullptr;
    positional.push_back(owned.back().get());
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(keywords, &position, &key, &value);) {
    owned.push_back(toArgument(value));
    if (!owned.back())
      return nullptr;
    keywordNames.push_back(textOf(key));
    keywordValues.push_back(owned.back().get());
  }
  std::vector<const char *> rawNames;
  for (const std::string &keyword : keywordNames)
    rawNames.push_back(keyword.c_str());
  nrd_value *result = nullptr;
  if (nrd_error *error =
          nrd_call_builtin(compilation->semantic, name, positional.data(), positional.size(),
                           rawNames.data(), keywordValues.data(), keywordValues.size(), &result))
    return raise(error, compilation);
  ValuePtr holder(result);
  return toPython(result, /*boxed=*/true).release();
}

bool addValueTypes(PyObject *module) {
  static PyType_Slot handleSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(handleDealloc)},
                                      {Py_tp_repr, reinterpret_cast<void *>(handleRepr)},
                                      {0, nullptr}};
  static PyType_Spec handleSpec = {"nereid._native.Handle", sizeof(HandleObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   handleSlots};
  static PyType_Slot semanticSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(semanticDealloc)},
                                        {Py_tp_getattro, reinterpret_cast<void *>(semanticGetattr)},
                                        {0, nullptr}};
  static PyType_Spec semanticSpec = {"nereid._native.Semantic", sizeof(SemanticObject), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     semanticSlots};
  handleType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&handleSpec));
  semanticType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&semanticSpec));
  return handleType && semanticType && PyModule_AddType(module, handleType) == 0 &&
         PyModule_AddType(module, semanticType) == 0;
}

} // namespace nereid::python
