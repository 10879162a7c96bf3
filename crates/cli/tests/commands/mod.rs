//! Commands: their text, input, output, order, deadlines, cancellation, and waiting for them.

mod background;
mod background_stop;
mod cancel;
mod cli_run;
mod deadlines;
mod ends;
mod expect;
mod flood;
mod one_command_only;
mod options;
mod output;
mod ps_wait;
mod races;
mod repeated_runs;
mod result_fields;
mod shell_messages;
mod sizes_and_bytes;
mod stdin;
mod streaming;
mod surroundings;
mod syntax;
mod turns;
mod wait;
