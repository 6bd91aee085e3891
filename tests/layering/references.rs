//! The references of one file: the paths in its imports, its code, and its macros; and code that hides references.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ExprAsync, ExprAwait, ExprPath, ExprUnsafe, File, ItemExternCrate, ItemMod, ItemUse, Macro, Path,
    Signature, Type, UseTree, Visibility,
};

use super::sources::ModulePath;

/// A path in a file.
pub(crate) struct Written {
    /// The module around it.
    pub(crate) module: ModulePath,
    /// The segments.
    pub(crate) segments: Vec<String>,
    /// The line, from 1.
    pub(crate) line: usize,
    /// Whether it is part of the tests.
    pub(crate) is_test: bool,
    /// Whether it is an import with a visibility, as by `pub use`.
    pub(crate) is_reexport: bool,
}

/// The references of a file.
#[derive(Default)]
pub(crate) struct Found {
    /// All paths with at least two segments, and all imports.
    pub(crate) paths: Vec<Written>,
    /// The inline modules of the file.
    pub(crate) modules: Vec<ModulePath>,
    /// The modules that are declared as public, and the lines.
    pub(crate) public_modules: Vec<(ModulePath, usize)>,
    /// The imports: the importing module, the name there, the path.
    pub(crate) imports: Vec<(ModulePath, String, Vec<String>)>,
    /// The lines of asynchronous functions and blocks outside of tests.
    pub(crate) waits: Vec<usize>,
    /// The lines of unsafe code.
    pub(crate) unsafes: Vec<usize>,
    /// The lines, outside of tests, of code that hides references from this module, and what it is.
    pub(crate) hiding: Vec<(usize, &'static str)>,
}

/// Returns the references of a module's file.
pub(crate) fn find(module: &[String], file: &File) -> Found {
    let is_test = file.attrs.iter().any(is_for_tests) || module.iter().any(|name| names_tests(name));
    let mut finder = Finder { module: module.to_vec(), is_test, found: Found::default() };
    finder.visit_file(file);
    finder.found
}

struct Finder {
    module: ModulePath,
    is_test: bool,
    found: Found,
}

impl Finder {
    fn add(&mut self, segments: Vec<String>, line: usize, is_reexport: bool) {
        self.found.paths.push(Written {
            module: self.module.clone(),
            segments,
            line,
            is_test: self.is_test,
            is_reexport,
        });
    }

    fn add_imports(&mut self, prefix: &[String], tree: &UseTree, is_reexport: bool) {
        let with = |name: String| prefix.iter().cloned().chain([name]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.add_imports(&with(path.ident.to_string()), &path.tree, is_reexport),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_imports(prefix, item, is_reexport)),
            UseTree::Glob(glob) => {
                let line = glob.span().start().line;
                self.add_hiding(line, "an import of everything hides what is used: name the items");
                self.add(prefix.to_vec(), line, is_reexport);
            }
            UseTree::Name(name) => {
                self.add_import(with(name.ident.to_string()), name.ident.to_string(), tree, is_reexport);
            }
            UseTree::Rename(rename) => {
                self.add_import(with(rename.ident.to_string()), rename.rename.to_string(), tree, is_reexport);
            }
        }
    }

    fn add_import(&mut self, mut path: Vec<String>, mut name: String, tree: &UseTree, is_reexport: bool) {
        // `use module::{self, …}`
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        }
        self.found.imports.push((self.module.clone(), name, path.clone()));
        self.add(path, tree.span().start().line, is_reexport);
    }

    /// Finds paths among the tokens of a macro's input.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon =
            |index: usize| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            index += 1;
            match token {
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    if first == "unsafe" {
                        self.found.unsafes.push(first.span().start().line);
                    }
                    if first == "include"
                        && matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == '!')
                    {
                        self.add_hiding(first.span().start().line, INCLUDED);
                    }
                    let mut segments = vec![first.to_string()];
                    while is_colon(index)
                        && is_colon(index + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(index + 2)
                    {
                        segments.push(next.to_string());
                        index += 3;
                    }
                    if segments.len() > 1 {
                        self.add(segments, first.span().start().line, false);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn add_hiding(&mut self, line: usize, what: &'static str) {
        if !self.is_test {
            self.found.hiding.push((line, what));
        }
    }

    fn add_wait(&mut self, line: usize) {
        if !self.is_test {
            self.found.waits.push(line);
        }
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        self.add_imports(&[], &item.tree, is_reexport);
    }

    fn visit_item_extern_crate(&mut self, item: &'a ItemExternCrate) {
        self.add(vec![item.ident.to_string()], item.span().start().line, false);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let was_test = self.is_test;
        self.is_test |= item.attrs.iter().any(is_for_tests);
        let line = item.span().start().line;
        if item.attrs.iter().any(has_path) {
            self.add_hiding(line, "`#[path]` hides the file of a module: give the file the name of the module");
        }
        if names_tests(&item.ident.to_string()) {
            self.add_hiding(line, "only tests have this name: add `#[cfg(test)]`, or rename the module");
        }
        if matches!(item.vis, Visibility::Public(_)) {
            self.found
                .public_modules
                .push((self.module.iter().cloned().chain([item.ident.to_string()]).collect(), line));
        }
        let Some((_, items)) = &item.content else {
            self.is_test = was_test;
            return;
        };
        self.module.push(item.ident.to_string());
        self.found.modules.push(self.module.clone());
        for item in items {
            self.visit_item(item);
        }
        self.module.pop();
        self.is_test = was_test;
    }

    fn visit_path(&mut self, path: &'a Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 || path.leading_colon.is_some() {
            self.add(segments, path.span().start().line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_path(&mut self, item: &'a ExprPath) {
        // `<module::Type>::function`
        if let Some(of) = item.qself.as_ref().filter(|of| of.position == 0)
            && let Type::Path(ty) = &*of.ty
        {
            let segments = ty.path.segments.iter().chain(&item.path.segments);
            self.add(segments.map(|segment| segment.ident.to_string()).collect(), item.span().start().line, false);
        }
        visit::visit_expr_path(self, item);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        if item.path.segments.last().is_some_and(|segment| segment.ident == "include") {
            self.add_hiding(item.span().start().line, INCLUDED);
        }
        self.visit_path(&item.path);
        self.add_tokens(item.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
        self.visit_path(attribute.path());
    }

    fn visit_signature(&mut self, signature: &'a Signature) {
        if signature.asyncness.is_some() {
            self.add_wait(signature.span().start().line);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, expression: &'a ExprAsync) {
        self.add_wait(expression.span().start().line);
        visit::visit_expr_async(self, expression);
    }

    fn visit_expr_await(&mut self, expression: &'a ExprAwait) {
        self.add_wait(expression.span().start().line);
        visit::visit_expr_await(self, expression);
    }

    fn visit_expr_unsafe(&mut self, expression: &'a ExprUnsafe) {
        self.found.unsafes.push(expression.span().start().line);
        visit::visit_expr_unsafe(self, expression);
    }
}

/// Why code must not be included.
const INCLUDED: &str = "`include!` hides the references of a file: make the file a module";

/// Tells whether modules of this name are tests.
fn names_tests(module: &str) -> bool {
    module == "tests" || module.ends_with("_tests")
}

/// Tells whether an attribute of a module names its file.
fn has_path(attribute: &Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::NameValue(pair) => pair.path.is_ident("path"),
        syn::Meta::List(list) => {
            list.path.is_ident("cfg_attr")
                && list
                    .tokens
                    .clone()
                    .into_iter()
                    .any(|token| matches!(token, TokenTree::Ident(name) if name == "path"))
        }
        syn::Meta::Path(_) => false,
    }
}

/// Tells whether an attribute is `cfg(test)`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}
