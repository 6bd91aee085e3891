//! The layer that formats events of `tracing` as lines.

use std::sync::Arc;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::kit::Clock;

use super::credentials;
use super::line::{self, Format, Line};
use super::options::{Options, Verbosity};
use super::reference::ObjectReference;
use super::stderr;
use super::targets::{OBJECTS, STEPS};

/// Writes each event as a line to standard error.
pub(crate) struct Lines {
    printer: Arc<Printer>,
}

impl Lines {
    /// Creates the layer.
    pub(crate) fn new(printer: Arc<Printer>) -> Self {
        Self { printer }
    }
}

/// Formats lines.
pub(crate) struct Printer {
    options: Options,
    is_terminal: bool,
    clock: Clock,
}

impl Printer {
    /// Creates a printer for standard error.
    pub(crate) fn new(options: Options, is_terminal: bool, clock: Clock) -> Self {
        Self { options, is_terminal, clock }
    }

    /// Returns a line with its line break.
    pub(crate) fn print(&self, line: &Line) -> String {
        let has_prefix = self.options.prefix.unwrap_or(self.options.format != Format::Json);
        let mut printed = if self.options.format == Format::ChangeLog {
            line.change_log(&line.prefix(has_prefix), self.options.has_colours, self.width())
        } else {
            line.print(self.options.format, &self.options.reference_key, has_prefix)
        };
        printed.push('\n');
        printed
    }

    /// Returns the line that reports dropped lines.
    pub(crate) fn notice(&self, dropped: u64) -> String {
        let (lines, were) = if dropped == 1 { ("line", "was") } else { ("lines", "were") };
        self.print(&Line {
            at: self.clock.now(),
            level: tracing::Level::WARN,
            logger: "kopfd".to_owned(),
            message: format!("{} {lines} {were} dropped: the log is not read fast enough.", line::thousands(dropped)),
            fields: Map::new(),
            object: None,
        })
    }

    /// Lines are cut to the width of a terminal, which may be resized at any time.
    fn width(&self) -> Option<usize> {
        let is_cut = self.is_terminal && self.options.verbosity == Verbosity::Normal;
        is_cut.then(|| {
            terminal_size::terminal_size_of(std::io::stderr())
                .map_or(line::DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
        })
    }
}

/// Passes each event as a line to a callback.
pub(crate) struct Callback<F> {
    callback: F,
    clock: Clock,
}

impl<F: Fn(Line)> Callback<F> {
    /// Creates the layer.
    pub(crate) fn new(callback: F, clock: Clock) -> Self {
        Self { callback, clock }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: Fn(Line) + 'static> Layer<S> for Callback<F> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        store_reference(attributes, id, &context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        renew_reference(values, id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        (self.callback)(line_of(event, &context, &self.clock));
    }
}

/// Stores the object reference of a span in its extensions.
fn store_reference<S: Subscriber + for<'a> LookupSpan<'a>>(
    attributes: &Attributes<'_>,
    id: &Id,
    context: &Context<'_, S>,
) {
    if attributes.metadata().target() != OBJECTS {
        return;
    }
    let mut reference = ObjectReference::default();
    attributes.record(&mut reference);
    if let Some(span) = context.span(id) {
        span.extensions_mut().insert(Arc::new(reference));
    }
}

/// Changes the stored object reference of a span.
fn renew_reference<S: Subscriber + for<'a> LookupSpan<'a>>(values: &Record<'_>, id: &Id, context: &Context<'_, S>) {
    if let Some(span) = context.span(id)
        && let Some(reference) = span.extensions_mut().get_mut::<Arc<ObjectReference>>()
    {
        let reference: &mut ObjectReference = Arc::make_mut(reference);
        values.record(reference);
    }
}

fn line_of<S: Subscriber + for<'a> LookupSpan<'a>>(event: &Event<'_>, context: &Context<'_, S>, clock: &Clock) -> Line {
    let mut message = FieldVisitor::default();
    event.record(&mut message);
    let object = context.event_scope(event).and_then(|scope| {
        let mut spans = scope.filter_map(|span| span.extensions().get::<Arc<ObjectReference>>().cloned());
        spans.next()
    });
    Line {
        at: clock.now(),
        level: *event.metadata().level(),
        logger: if event.metadata().target() == STEPS { OBJECTS } else { event.metadata().target() }.replace("::", "."),
        message: credentials::hide(message.text),
        fields: message.fields.into_iter().map(|(key, value)| (key, without_credentials(value))).collect(),
        object,
    }
}

fn without_credentials(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(credentials::hide(text)),
        // The fields of events are texts, numbers and booleans.
        other => other,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        store_reference(attributes, id, &context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        renew_reference(values, id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        stderr::write(&self.printer.print(&line_of(event, &context, &self.printer.clock)));
    }
}

#[derive(Default)]
struct FieldVisitor {
    text: String,
    fields: Map<String, Value>,
}

impl FieldVisitor {
    fn insert(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        } else {
            self.insert(field, Value::String(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.text);
        } else {
            self.insert(field, Value::String(value.to_owned()));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, Value::from(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        self.insert(field, Value::String(text));
    }
}
