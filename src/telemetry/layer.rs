//! The layer between the engine's events and the lines on the standard error stream.

use std::sync::Arc;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::kit::Clock;

use super::line::{self, Format, Line};
use super::reference::ObjectReference;
use super::{OBJECTS, Options, STEPS};

/// Writes each event as one line.
pub struct Lines {
    printer: Arc<Printer>,
}

impl Lines {
    /// Returns the layer.
    pub fn new(printer: Arc<Printer>) -> Self {
        Self { printer }
    }
}

/// Prints lines in the form that was asked for.
pub struct Printer {
    options: Options,
    is_terminal: bool,
    clock: Clock,
}

impl Printer {
    /// Returns the printer for a stream that is a terminal or not.
    pub fn new(options: Options, is_terminal: bool, clock: Clock) -> Self {
        Self { options, is_terminal, clock }
    }

    /// Returns a line with its break.
    pub fn print(&self, line: &Line) -> String {
        let has_prefix = self.options.prefix.unwrap_or(self.options.format != Format::Json);
        let mut printed = if self.options.format == Format::Account {
            line.account(&line.prefix(has_prefix), self.options.has_colours, self.width())
        } else {
            line.print(self.options.format, &self.options.reference_key, has_prefix)
        };
        printed.push('\n');
        printed
    }

    /// Returns the line that tells how many lines were dropped.
    pub fn notice(&self, dropped: u64) -> String {
        let (lines, were) = if dropped == 1 { ("line", "was") } else { ("lines", "were") };
        self.print(&Line {
            at: self.clock.now(),
            level: tracing::Level::WARN,
            logger: "kopfd".to_owned(),
            message: format!("{} {lines} {were} dropped: the log is not read fast enough.", line::grouped(dropped)),
            fields: Map::new(),
            object: None,
        })
    }

    /// Lines are cut where people look at them. Its user may have changed the size of the terminal.
    fn width(&self) -> Option<usize> {
        let is_cut = self.is_terminal && self.options.verbosity == super::Verbosity::Normal;
        is_cut.then(|| terminal_size::terminal_size_of(std::io::stderr()).map_or(line::WIDTH, |(width, _)| usize::from(width.0)))
    }
}

/// Hands each event over as a line.
pub struct Hearing<F> {
    hear: F,
    clock: Clock,
}

impl<F: Fn(Line)> Hearing<F> {
    /// Returns the layer.
    pub fn new(hear: F, clock: Clock) -> Self {
        Self { hear, clock }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: Fn(Line) + 'static> Layer<S> for Hearing<F> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        note_object(attributes, id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        (self.hear)(line_of(event, &context, &self.clock));
    }
}

/// Keeps the object that a span is about with the span.
fn note_object<S: Subscriber + for<'a> LookupSpan<'a>>(attributes: &Attributes<'_>, id: &Id, context: &Context<'_, S>) {
    if attributes.metadata().target() != OBJECTS {
        return;
    }
    let mut reference = ObjectReference::default();
    attributes.record(&mut reference);
    if let Some(span) = context.span(id) {
        span.extensions_mut().insert(reference);
    }
}

fn line_of<S: Subscriber + for<'a> LookupSpan<'a>>(event: &Event<'_>, context: &Context<'_, S>, clock: &Clock) -> Line {
    let mut message = Message::default();
    event.record(&mut message);
    let object = context.event_scope(event).and_then(|scope| {
        let mut spans = scope.filter_map(|span| span.extensions().get::<ObjectReference>().cloned());
        spans.next()
    });
    Line {
        at: clock.now(),
        level: *event.metadata().level(),
        logger: if event.metadata().target() == STEPS { OBJECTS } else { event.metadata().target() }.replace("::", "."),
        message: message.text,
        fields: message.fields,
        object,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        note_object(attributes, id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        super::write(&self.printer.print(&line_of(event, &context, &self.printer.clock)));
    }
}

#[derive(Default)]
struct Message {
    text: String,
    fields: Map<String, Value>,
}

impl Message {
    fn keep(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        } else {
            self.keep(field, Value::String(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.text);
        } else {
            self.keep(field, Value::String(value.to_owned()));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, Value::from(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        self.keep(field, Value::String(text));
    }
}
