"""Renames functions, classes, arguments and locals as mypy resolves them: `python tools/renames/rename.py . tools/renames/NAME.tsv [--dry]`.

A table has a line for each name: its full name, of a local after two colons, as of version 0.1; a TAB; the new name, or = to
keep it. `modmap.json` says where the modules of 0.1 stand now. What could not be resolved is written to work/renames.txt.
"""
import ast, sys, re, os, collections, json, builtins
from pathlib import Path
ROOT = Path(sys.argv[1]); maps = [Path(a) for a in sys.argv[2:] if a.endswith(".tsv")]; DRY = "--dry" in sys.argv
os.chdir(ROOT)
from mypy import build, nodes as N, types as T
from mypy.main import process_options
from mypy.fscache import FileSystemCache
report = collections.defaultdict(list)
# ---- sources
stems = collections.Counter(p.stem for p in [*Path("tests").rglob("*.py"), *Path("bench").glob("*.py")])
def modname(p):
    parts = list(p.with_suffix("").parts)
    if parts[0] == "src": parts = parts[1:]
    elif parts[0] == "tests":
        if p.name == "__init__.py": return None
        return p.stem if stems[p.stem] == 1 else "tests__" + "_".join(parts[1:])
    elif parts[0] == "bench": return p.stem if stems[p.stem] == 1 else "bench__" + p.stem
    if parts[-1] == "__init__": parts = parts[:-1]
    return ".".join(parts)
# ---- maps
ren = {}
MODMAP = json.load(open('tools/renames/modmap.json'))
for m in maps:
    for line in m.read_text().splitlines():
        p = line.split("\t")
        if line.startswith("#") or len(p) < 2: continue
        k, v = p[0].strip(), p[1].strip()
        base = k.split("::")[0]
        while base and base not in MODMAP: base = base.rpartition(".")[0]
        if base: k = MODMAP[base] + k[len(base):]
        if k.startswith("benchmarks."):
            _, stem, rest = re.split(r"\.", k, maxsplit=2); k = f"{modname(Path('bench', stem + '.py'))}.{rest}"
        if v and v != "=" and re.split(r"::|\.", k)[-1] != v:
            if k in ren and ren[k] != v: report["map conflict"].append(f"{k}: {ren[k]} / {v}")
            ren[k] = v
files = {}
for p in sorted([*Path("src").rglob("*.py"), *Path("pipelines").glob("*.py"), *Path("bench").glob("*.py"), *Path("tests").rglob("*.py"), *Path("docs").glob("*.py")]):
    m = modname(p)
    if m: files[m] = p
from mypy.modulefinder import BuildSource
sources = [BuildSource(str(p), m, None) for m, p in files.items()]
_, opts = process_options(["--config-file", "pyproject.toml", "-m", "caramel"], fscache=FileSystemCache())
opts.export_types = True; opts.preserve_asts = True; opts.incremental = False; opts.check_untyped_defs = True
opts.mypy_path = ["src"]; opts.cache_dir = os.devnull; opts.namespace_packages = True; opts.explicit_package_bases = True
opts.show_traceback = False
res = build.build(sources, opts)
fatal = [e for e in res.errors if "syntax" in e.lower()]
print("mypy errors:", len(res.errors), fatal[:5]); print("\n".join([e for e in res.errors if "src/" in e][:10]))
mods, types = res.files, res.types
own = set(files)
def is_own(full): 
    p = full
    while p:
        if p in own: return True
        p = p.rpartition(".")[0]
    return False
# ---- union of overridden members
parent = {}
def find(k):
    while parent.get(k, k) != k: k = parent[k]
    return k
def union(a, b): parent[find(a)] = find(b)
infos = {}
def all_infos(tree):
    for name, sym in list(tree.names.items()):
        if isinstance(sym.node, N.TypeInfo) and sym.node.fullname.startswith(tree.fullname + "."): yield from walk_info(sym.node)
def walk_info(info):
    if info.fullname in infos: return
    infos[info.fullname] = info
    yield info
    for s in info.names.values():
        if isinstance(s.node, N.TypeInfo): yield from walk_info(s.node)
for m in own:
    if m in mods:
        for info in all_infos(mods[m]): pass
foreign = set()
for info in infos.values():
    for name in info.names:
        for base in info.mro[1:]:
            if name in base.names:
                a, b = f"{info.fullname}.{name}", f"{base.fullname}.{name}"
                union(a, b)
                if not is_own(base.fullname) and base.fullname != "builtins.object": foreign.add(b)
groups = collections.defaultdict(set)
for k in list(parent): groups[find(k)].add(k)
for root, ks in groups.items():
    ks = ks | {root}
    new = {ren[k] for k in ks if k in ren}
    if not new: continue
    if ks & foreign: report["overrides external, not renamed"].append(str(sorted(ks & foreign))+" <- "+str([k for k in ks if k in ren])); [ren.pop(k, None) for k in ks]; continue
    if len(new) > 1: report["members disagree"].append(f"{sorted((k, ren.get(k)) for k in ks)}"); 
    pick = collections.Counter(ren[k] for k in ks if k in ren).most_common(1)[0][0]
    for k in ks: ren[k] = pick
# ---- mypy expression index per file
SKIP = {"node", "info", "type", "definition", "names", "original_def", "unanalyzed_type", "def_var", "var", "metaclass_type", "alias_deps", "target", "is_reachable", "tree", "plugin_deps", "symtable", "removed_base_type_exprs" , "future_import_flags", "imports"}
ATTRS = {}
def attrs_of(c):
    if c not in ATTRS:
        out = []
        for k in c.__mro__: out += [a for a in getattr(k, "__mypyc_attrs__", ()) if a not in SKIP and not a.startswith("__")]
        ATTRS[c] = list(dict.fromkeys(out))
    return ATTRS[c]
class Index:
    def __init__(self): self.at = {}; self.seen = set()
    def walk(self, root):
        todo = [root]
        while todo:
            o = todo.pop()
            if isinstance(o, (list, tuple)): todo += o; continue
            if isinstance(o, dict): todo += list(o.values()); continue
            if not isinstance(o, (N.Node,)) or isinstance(o, (N.TypeInfo, N.MypyFile)) and o is not root: continue
            if id(o) in self.seen: continue
            self.seen.add(id(o))
            if isinstance(o, (N.NameExpr, N.MemberExpr, N.CallExpr)):
                self.at.setdefault((o.line, o.column, o.end_line, o.end_column, type(o).__name__), o)
            for a in attrs_of(type(o)):
                try: v = getattr(o, a)
                except AttributeError: continue
                if isinstance(v, (N.Node, list, tuple, dict)): todo.append(v)
def member_keys(t, name, depth=0):
    t = T.get_proper_type(t) if t is not None else None
    if t is None or depth > 6: return None
    if isinstance(t, T.AnyType): return None
    if isinstance(t, T.UnionType):
        out = []
        for i in t.items:
            i = T.get_proper_type(i)
            if isinstance(i, T.NoneType): continue
            k = member_keys(i, name, depth+1)
            if k: out += k
        return out or None
    if isinstance(t, T.TypeVarType): return member_keys(t.upper_bound, name, depth+1)
    if isinstance(t, T.TupleType): return member_keys(t.partial_fallback, name, depth+1)
    if isinstance(t, T.LiteralType): return member_keys(t.fallback, name, depth+1)
    if isinstance(t, T.TypeType): return member_keys(t.item, name, depth+1)
    if isinstance(t, T.FunctionLike) and t.is_type_obj(): return info_key(t.type_object(), name)
    if isinstance(t, T.Instance): return info_key(t.type, name)
    return []
def info_key(info, name):
    for b in info.mro:
        if name in b.names: return [f"{b.fullname}.{name}"]
    return []
def node_key(node):
    if node is None: return None
    if isinstance(node, N.Decorator): node = node.func
    return local_key.get(id(node)) or (node.fullname if getattr(node, "fullname", None) and "." in node.fullname else None)
def new_of(keys):
    n = {ren[k] for k in keys if k in ren}
    if len(n) > 1: report["attribute of several classes"].append(str(keys)); return None
    if n and any(k not in ren and is_own(k) for k in keys): report["attribute partly renamed"].append(str(keys))
    return n.pop() if n else None
local_key = {}
edits = collections.defaultdict(dict)  # path -> {(line, bytecol): (old, new)}
unresolved_attr = []; string_edits = collections.defaultdict(list)
renamed_attr_names = collections.defaultdict(set)
for k, v in ren.items():
    if "::" not in k: renamed_attr_names[k.rpartition(".")[2]].add((k, v))
renamed_args = collections.defaultdict(set)
for k, v in ren.items():
    if "::" in k: renamed_args[k.rpartition("::")[2]].add((k, v))
def bound_names(fn):
    """names bound in fn itself (args, stores, imports, defs), nested comprehension included"""
    s = set()
    a = fn.args
    for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *( [a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])]: s.add(x.arg)
    nl = set()
    def walk(n):
        for c in ast.iter_child_nodes(n):
            if isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): s.add(c.name); continue
            if isinstance(c, ast.Name) and isinstance(c.ctx, (ast.Store, ast.Del)): s.add(c.id)
            if isinstance(c, (ast.Import, ast.ImportFrom)):
                for al in c.names: s.add((al.asname or al.name).split(".")[0])
            if isinstance(c, ast.ExceptHandler) and c.name: s.add(c.name)
            if isinstance(c, (ast.Global, ast.Nonlocal)): nl.update(c.names)
            if isinstance(c, ast.Lambda):
                for x in [*c.args.posonlyargs, *c.args.args, *c.args.kwonlyargs]: s.add(x.arg)
            if isinstance(c, (ast.MatchAs, ast.MatchStar)) and c.name: s.add(c.name)
            walk(c)
    if isinstance(fn, ast.Lambda): walk(fn.body) if not isinstance(fn.body, ast.Name) else None
    else:
        for st in fn.body:
            if isinstance(st, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): s.add(st.name)
            else:
                holder = ast.Module(body=[st], type_ignores=[]); walk(holder)
    return s - nl
def used_names(fn): return {n.id for n in ast.walk(fn) if isinstance(n, ast.Name)} | {a.arg for n in ast.walk(fn) if isinstance(n, (ast.arguments,)) for a in [*n.posonlyargs, *n.args, *n.kwonlyargs]}
def process(mod, path):
    tree = mods.get(mod)
    if tree is None: report["no mypy tree"].append(mod); return
    src = path.read_bytes(); lines = src.split(b"\n"); py = ast.parse(src)
    ix = Index(); ix.walk(tree)
    E = edits[path]
    def edit(line, col, old, new, fstr=None):
        if lines[line-1][col:col+len(old)] == old.encode():
            E[(line, col)] = (old, new); return
        if fstr is not None:
            pat = re.compile(rb"(?<![\w.'\"])" + old.encode() + rb"\b(?!['\"])") 
            for ln in range(fstr.lineno, fstr.end_lineno+1):
                text = lines[ln-1]
                for m in re.finditer(rb"\{[^{}]*\}", text):
                    for q in re.finditer(rb"\b" + old.encode() + rb"\b", m.group()): E[(ln, m.start()+q.start())] = (old, new)
            report["f-string fallback"].append(f"{path}:{line} {old}->{new}"); return
        report["text differs"].append(f"{path}:{line}:{col} {old}->{new}: {lines[line-1][col:col+30]!r}")
    # scope walk on the python ast
    def lookup_global(name):
        sym = tree.names.get(name)
        return node_key(sym.node) if sym and sym.node is not None else None
    def resolve_name(n, stack):
        """stack: list of (key, boundset)"""
        for key, bound in reversed(stack):
            if key is not None and n.id in bound: return f"{key}::{n.id}", key
        return None, None
    def local_target(key, name):
        """a local name which is a nested def, a local import, or a variable"""
        return ren.get(f"{key}::{name}") or ren.get(f"{key}.{name}")
    def handle_name(n, stack, fstr, inclass):
        k, owner = resolve_name(n, stack)
        if k is not None:
            imp = local_imports.get((owner, n.id))
            new = ren.get(imp) if imp else local_target(owner, n.id)
        else:
            if inclass and f"{inclass}.{n.id}" in ren and isinstance(n.ctx, ast.Store): new = ren[f"{inclass}.{n.id}"]
            elif inclass and (inclass in infos and n.id in infos[inclass].names): new = ren.get(f"{inclass}.{n.id}")
            else:
                g = lookup_global(n.id); new = ren.get(g) if g and n.id not in aliased else None
        if new and new != n.id: edit(n.lineno, n.col_offset, n.id, new, fstr)
    local_imports = {}; aliased = set()
    def do_import(n, stack):
        if not isinstance(n, ast.ImportFrom): return
        base = n.module or ""
        if n.level:
            pk = mod.split(".") if path.name == "__init__.py" else mod.split(".")[:-1]
            pk = pk[:len(pk)-(n.level-1)]; base = ".".join(pk + ([n.module] if n.module else []))
        for al in n.names:
            m2 = mods.get(base); sym = m2.names.get(al.name) if m2 else None
            full = None
            if sym is not None and sym.node is not None and not isinstance(sym.node, N.MypyFile): full = node_key(sym.node) 
            if full is None and is_own(base): full = f"{base}.{al.name}"
            key = stack[-1][0] if stack else None
            if full:
                if key is not None and not al.asname: local_imports[(key, al.name)] = full
                if key is not None and al.asname: local_imports[(key, al.asname)] = "<alias>"
                if key is None and al.asname: aliased.add(al.asname)
                new = ren.get(full)
                if new: edit(al.lineno, al.col_offset, al.name, new)
            elif key is not None: local_imports[(key, al.asname or al.name)] = "<module>"
    def do_attr(n, fstr):
        name = n.attr; col = n.end_col_offset - len(name.encode()); line = n.end_lineno
        o = ix.at.get((n.lineno, n.col_offset, n.end_lineno, n.end_col_offset, "MemberExpr"))
        keys = None
        full0 = dotted(n.value) if isinstance(n.value, (ast.Name, ast.Attribute)) else None
        if full0 in mods and not (isinstance(n.value, ast.Name) and any(n.value.id in b for k, b in cur_stack if k and (k, n.value.id) not in local_imports)):
            sym = mods[full0].names.get(name)
            if sym is not None and sym.node is not None and not isinstance(sym.node, N.MypyFile): keys = [node_key(sym.node)]
            elif sym is None and any(name == k.rpartition(".")[2] for k, _ in renamed_attr_names.get(name, ())): report["module lacks"].append(f"{path}:{line} {full0}.{name}")
        if keys is None and o is not None:
            if getattr(o, "node", None) is not None and not isinstance(o.node, N.MypyFile) and getattr(o.node, "fullname", None) and "." in o.node.fullname and not isinstance(T.get_proper_type(types.get(o.expr)), T.Instance):
                keys = [node_key(o.node)]
            t = types.get(o.expr)
            if keys is None and t is not None: keys = member_keys(t, name)
            if keys is None and getattr(o, "node", None) is not None: keys = [node_key(o.node)] if node_key(o.node) else None
            if keys is None and isinstance(o.expr, N.RefExpr) and isinstance(o.expr.node, N.MypyFile):
                sym = o.expr.node.names.get(name); keys = [node_key(sym.node)] if sym and sym.node else None
        if keys is None and isinstance(n.value, (ast.Name, ast.Attribute)):
            full = dotted(n.value)
            if full in mods:
                sym = mods[full].names.get(name); keys = [node_key(sym.node)] if sym and sym.node is not None else None
        if keys is None:
            if name in renamed_attr_names: unresolved_attr.append((str(path), line, col, name, ast.unparse(n)[:80]))
            return
        new = new_of([k for k in keys if k])
        if new: edit(line, col, name, new, fstr)
    def dotted(v):
        if isinstance(v, ast.Name):
            sym = tree.names.get(v.id)
            if sym is not None and isinstance(sym.node, N.MypyFile): return sym.node.fullname
            return mod_imports.get(v.id)
        if isinstance(v, ast.Attribute):
            b = dotted(v.value); return f"{b}.{v.attr}" if b else None
    mod_imports = {}
    for n in ast.walk(py):
        if isinstance(n, ast.ImportFrom) and n.module:
            for al in n.names:
                if f"{n.module}.{al.name}" in mods: mod_imports[al.asname or al.name] = f"{n.module}.{al.name}"
        if isinstance(n, ast.Import):
            for al in n.names:
                if al.asname and al.name in mods: mod_imports[al.asname] = al.name
                elif al.name.split(".")[0] in mods: mod_imports[al.name.split(".")[0]] = al.name.split(".")[0]
    def callee_def(o):
        c = o.callee
        t = T.get_proper_type(types.get(c)) if c in types else None
        node = c.node if isinstance(c, N.RefExpr) else None
        if isinstance(node, N.TypeAlias): node = None
        if isinstance(node, N.Decorator): return ("f", node_key(node.func))
        if isinstance(node, N.FuncDef): return ("f", node_key(node))
        if isinstance(node, N.TypeInfo): return ("c", node)
        if isinstance(t, T.CallableType):
            if t.is_type_obj(): return ("c", t.type_object())
            d = t.definition
            if isinstance(d, N.Decorator): d = d.func
            if isinstance(d, N.FuncDef): return ("f", node_key(d))
        if isinstance(t, T.Instance):
            for b in t.type.mro:
                if "__call__" in b.names: return ("f", f"{b.fullname}.__call__")
        if isinstance(c, N.MemberExpr):
            ks = member_keys(types.get(c.expr), c.name)
            if ks: return ("f", ks[0])
        return None
    def kw_target(target, name):
        if target is None: return None
        kind, d = target
        if kind == "f": return ren.get(f"{d}::{name}")
        for b in d.mro:
            if name in b.names and isinstance(b.names[name].node, N.Var): 
                return ren.get(f"{b.fullname}.{name}")
            if "__init__" in b.names and not getattr(b.names["__init__"], "plugin_generated", False): return ren.get(f"{b.fullname}.__init__::{name}")
        return None
    def do_call(n, fstr):
        kws = [k for k in n.keywords if k.arg]
        o = ix.at.get((n.lineno, n.col_offset, n.end_lineno, n.end_col_offset, "CallExpr"))
        if kws:
            target = callee_def(o) if o is not None else None
            fname = ast.unparse(n.func).split(".")[-1]
            if fname in ("partial", "with_parameters", "submit", "remote") and n.args:
                a0 = o.args[0] if o is not None and o.args else None
                node = getattr(a0, "node", None)
                if isinstance(node, (N.FuncDef, N.Decorator)): target = ("f", node_key(node.func if isinstance(node, N.Decorator) else node))
                elif isinstance(node, N.TypeInfo): target = ("c", node)
            if fname in ("replace", "_replace", "model_copy") and o is not None and (o.args or fname == "_replace"):
                t = T.get_proper_type(types.get(o.args[0] if fname == "replace" else o.callee.expr))
                if isinstance(t, T.TupleType): t = t.partial_fallback
                if isinstance(t, T.Instance): target = ("c", t.type)
            for k in kws:
                new = kw_target(target, k.arg)
                if new: edit(k.lineno, k.col_offset, k.arg, new, fstr)
                elif target is None and k.arg in renamed_args: report["keyword unresolved"].append(f"{path}:{k.lineno} {ast.unparse(n.func)[:50]}({k.arg}=)")
        # setattr(module, "name")
        fname = ast.unparse(n.func)
        if fname.split(".")[-1] in ("setattr", "getattr", "hasattr", "delattr", "object") and len(n.args) >= 2 and isinstance(n.args[1], ast.Constant) and isinstance(n.args[1].value, str):
            name = n.args[1].value; keys = None
            full = dotted(n.args[0])
            if full in mods and mods[full].names.get(name) is not None and mods[full].names[name].node is not None: keys = [node_key(mods[full].names[name].node)]
            elif o is not None and len(o.args) >= 2:
                keys = member_keys(types.get(o.args[0]), name)
                if isinstance(o.args[0], N.RefExpr) and isinstance(o.args[0].node, N.TypeInfo): keys = info_key(o.args[0].node, name)
                if isinstance(o.args[0], N.RefExpr) and isinstance(o.args[0].node, N.MypyFile):
                    sym = o.args[0].node.names.get(name); keys = [node_key(sym.node)] if sym and sym.node else None
            new = new_of([k for k in keys if k]) if keys else None
            if new: edit(n.args[1].lineno, n.args[1].col_offset+1, name, new)
            elif keys is None and name in renamed_attr_names: report["setattr unresolved"].append(f"{path}:{n.lineno} {ast.unparse(n)[:100]}")
    def do_str(n):
        v = n.value
        if "caramel" in v and "import" in v and fmode["ok"]:
            subs = {}
            for m in re.finditer(r"from (caramel[\w.]*) import ([\w, ]+)", v):
                for nm in m.group(2).split(","):
                    bits = nm.split(); 
                    if not bits: continue
                    nm0, al = bits[0], bits[-1]; fullm = f"{m.group(1)}.{nm0}"
                    if fullm in mods:
                        for a_ in set(re.findall(rf"\b{al}\.(\w+)", v)):
                            sy = mods[fullm].names.get(a_); nw = ren.get(node_key(sy.node)) if sy and sy.node is not None else None
                            if nw: subs[rf"\b{al}\.{a_}\b"] = f"{al}.{nw}"
                    elif m.group(1) in mods:
                        sy = mods[m.group(1)].names.get(nm0); nw = ren.get(node_key(sy.node)) if sy and sy.node is not None else None
                        if nw: subs[rf"(?<![\w.'\"/]){nm0}\b"] = nw
            if subs: strings.append((n.lineno, n.end_lineno, subs)); report["code in string"].append(f"{path}:{n.lineno} {subs}")
        q = re.fullmatch(r"(caramel(?:\.\w+)+):(\w+)", v)
        if q and q.group(1) in mods:
            sym = mods[q.group(1)].names.get(q.group(2)); new = ren.get(node_key(sym.node)) if sym and sym.node is not None else None
            if new: edit(n.lineno, n.col_offset + 1 + len(q.group(1)) + 1, q.group(2), new)
        m = re.fullmatch(r"(caramel(?:\.\w+)+)\.(\w+)", v)
        if m:
            for cut in range(1, 3):
                parts = v.split("."); base, rest = ".".join(parts[:-cut]), parts[-cut:]
                if base in mods and base in own:
                    key = f"{base}.{rest[0]}"; sym = mods[base].names.get(rest[0])
                    if sym is not None and sym.node is not None and not isinstance(sym.node, N.MypyFile): key = node_key(sym.node)
                    new0 = ren.get(key); text = n.lineno
                    if new0:
                        off = lines[n.lineno-1].find((base + "." + rest[0]).encode(), n.col_offset)
                        if off >= 0: edit(n.lineno, off+len(base)+1, rest[0], new0)
                    if cut == 2 and f"{key}.{rest[1]}" in ren: report["string member"].append(f"{path}:{n.lineno} {v}")
                    break
    cur_stack = []; strings = string_edits[path]; fmode = {"ok": True}
    def go(n, stack, fstr, inclass):
        cur_stack[:] = stack
        if isinstance(n, ast.JoinedStr): fstr = n
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            owner = inclass or (stack[-1][0] if stack else None) or mod
            key = f"{owner}.{n.name}"
            for d in n.decorator_list: go(d, stack, fstr, inclass)
            new = ren.get(key)
            if new:
                m = re.compile(rb"def\s+").search(lines[n.lineno-1], n.col_offset); edit(n.lineno, m.end(), n.name, new)
            bound = bound_names(n)
            a = n.args
            allargs = [*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])]
            for x in allargs:
                v = ren.get(f"{key}::{x.arg}")
                if v: edit(x.lineno, x.col_offset, x.arg, v)
                if x.annotation: go(x.annotation, stack, fstr, inclass)
            for d in [*a.defaults, *[d for d in a.kw_defaults if d]]: go(d, stack, fstr, inclass)
            if n.returns: go(n.returns, stack, fstr, inclass)
            # collisions
            mine = localren.get(key, {})
            used = used_names(n) | bound
            for o_, v_ in mine.items():
                if o_ not in bound: continue
                if (v_ in used and v_ not in mine) or v_ in dir(builtins): report["COLLISION local"].append(f"{key}::{o_} -> {v_}")
            for st in n.body: go(st, [*stack, (key, bound)], fstr, None)
            return
        if isinstance(n, ast.ClassDef):
            owner = inclass or (stack[-1][0] if stack else None) or mod
            key = f"{owner}.{n.name}"
            for d in n.decorator_list: go(d, stack, fstr, inclass)
            for b in [*n.bases, *[k.value for k in n.keywords]]: go(b, stack, fstr, inclass)
            new = ren.get(key)
            if new:
                m = re.compile(rb"class\s+").search(lines[n.lineno-1], n.col_offset); edit(n.lineno, m.end(), n.name, new)
            for st in n.body: go(st, stack, fstr, key)
            return
        if isinstance(n, ast.Lambda):
            owner = stack[-1][0] if stack else None
            for x in [*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs]:
                v = ren.get(f"{owner}::{x.arg}") if owner else None
                if v: edit(x.lineno, x.col_offset, x.arg, v, fstr)
        if isinstance(n, (ast.Import, ast.ImportFrom)): do_import(n, stack)
        if isinstance(n, ast.Name): handle_name(n, stack, fstr, inclass)
        if isinstance(n, ast.Attribute): do_attr(n, fstr)
        if isinstance(n, ast.Call): do_call(n, fstr)
        if isinstance(n, ast.Constant) and isinstance(n.value, str): do_str(n)
        if isinstance(n, ast.ExceptHandler) and n.name and stack:
            v = local_target(stack[-1][0], n.name)
            if v:
                m = re.compile(rb"\bas\s+").search(lines[n.lineno-1]); edit(n.lineno, m.end(), n.name, v)
        if isinstance(n, (ast.Global, ast.Nonlocal)):
            for nm in n.names:
                v = None
                if isinstance(n, ast.Global): v = ren.get(f"{mod}.{nm}")
                else:
                    for key, b in reversed(stack[:-1]):
                        if nm in b: v = local_target(key, nm); break
                if v: edit(n.lineno, lines[n.lineno-1].find(nm.encode(), n.col_offset+6), nm, v)
        if isinstance(n, ast.MatchClass): report["match class"].append(f"{path}:{n.lineno}") if n.kwd_attrs else None
        if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name and stack and local_target(stack[-1][0], n.name): report["match as"].append(f"{path}:{n.lineno} {n.name}")
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in n.targets):
            for c in ast.walk(n.value):
                if isinstance(c, ast.Constant) and isinstance(c.value, str):
                    g = lookup_global(c.value)
                    if g and g in ren: edit(c.lineno, c.col_offset+1, c.value, ren[g])
        for c in ast.iter_child_nodes(n): go(c, stack, fstr, inclass)
    for st in py.body: go(st, [], None, None)
    # global collisions
    for name, sym in tree.names.items():
        k = f"{mod}.{name}"
        if k in ren and ren[k] in tree.names and f"{mod}.{ren[k]}" not in ren: report["COLLISION global"].append(f"{k} -> {ren[k]}")
    glob = {name: ren[node_key(sym.node)] for name, sym in tree.names.items() if sym.node is not None and node_key(sym.node) in ren and name not in aliased}
    for fn in ast.walk(py):
        if isinstance(fn, (ast.FunctionDef, ast.AsyncFunctionDef)):
            b = bound_names(fn)
            refs = {x.id for x in ast.walk(fn) if isinstance(x, ast.Name)}
            for old in refs & set(glob):
                if old not in b and glob[old] in b and True: report["SHADOW: local hides renamed global"].append(f"{path}:{fn.lineno} {fn.name}: {old}->{glob[old]} (local)")
localren = collections.defaultdict(dict)
for k, v in ren.items():
    if "::" in k: a, b = k.split("::"); localren[a][b] = v
# member collisions
for info in infos.values():
    for name in info.names:
        k = f"{info.fullname}.{name}"
        if k in ren and any(ren[k] in b.names for b in info.mro if b.fullname != "builtins.object") and not any(f"{b.fullname}.{ren[k]}" in ren for b in info.mro): report["COLLISION member"].append(f"{k} -> {ren[k]}")
for mod, path in files.items(): process(mod, path)
# fallback for attributes on Any: one class only has it, and no own class keeps that name
import pandas as pd, torch, pyarrow, threading, subprocess as sp_, sqlite3
IGN = set()
for o in (dict, list, str, bytes, set, pd.DataFrame, pd.Series, torch.Tensor, torch.nn.Module, pyarrow.Table, sp_.Popen, threading.Thread, sqlite3.Connection, Path, open(os.devnull), re.compile("a"), re.match("a", "a"), collections.Counter): IGN |= set(dir(o)) - {"__x__"}
IGN |= {"remote", "fit", "predict", "transform", "run", "load", "save", "read", "write", "train", "log", "open", "start", "stop", "send", "body", "status", "get", "put", "client", "name", "table"}
owners = collections.defaultdict(set)
for info in infos.values():
    for nm in info.names: owners[nm].add(f"{info.fullname}.{nm}")
for (p, line, col, name, text) in unresolved_attr:
    cands = renamed_attr_names[name]; members = {(k, v) for k, v in cands if k in owners[name]}
    news = {v for _, v in members}
    if len(news) == 1 and all(k in ren for k in owners[name]) and name not in IGN:
        path = Path(p); got = path.read_bytes().split(b"\n")[line-1][col:col+len(name)]
        if got == name.encode(): edits[path][(line, col)] = (name, news.pop()); report["attribute on Any, renamed"].append(f"{p}:{line} {text}"); continue
    if members and name not in IGN or any(text.split(".")[0] == k.rsplit(".", 2)[-2] for k, _ in cands if k.count(".") > 1):
        report["attribute on Any"].append(f"{p}:{line} .{name} in {text}  candidates {sorted(k for k,_ in cands)[:4]}")
total = 0
for path, E in edits.items():
    if not E: continue
    lines = path.read_bytes().split(b"\n")
    by = collections.defaultdict(list)
    for (ln, col), (old, new) in E.items(): by[ln].append((col, old, new))
    for ln, es in by.items():
        text = lines[ln-1]
        for col, old, new in sorted(es, reverse=True):
            assert text[col:col+len(old)] == old.encode(), (path, ln, col, old)
            text = text[:col] + new.encode() + text[col+len(old):]; total += 1
        lines[ln-1] = text
    for l1, l2, subs in string_edits.get(path, ()):
        for i in range(l1-1, l2):
            t_ = lines[i].decode()
            for a_, b_ in subs.items(): t_ = re.sub(a_, b_, t_)
            lines[i] = t_.encode()
    string_edits.pop(path, None)
    if not DRY: path.write_bytes(b"\n".join(lines))
for path, items in string_edits.items():
    lines = path.read_bytes().split(b"\n")
    for l1, l2, subs in items:
        for i in range(l1-1, l2):
            t_ = lines[i].decode()
            for a_, b_ in subs.items(): t_ = re.sub(a_, b_, t_)
            lines[i] = t_.encode()
    if not DRY: path.write_bytes(b"\n".join(lines))
print("edits", total, "files", sum(bool(e) for e in edits.values()))
with open("work/renames.txt", "w") as f:
    for k, v in report.items():
        v = sorted(set(v)); print(k, len(v)); f.write(f"\n## {k} ({len(v)})\n" + "\n".join(v) + "\n")
