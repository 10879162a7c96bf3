//! Columns that line up.

use trl_protocol::quote::inline;
use unicode_width::UnicodeWidthStr as _;

use crate::output::Paint;

#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The column that gives way where the terminal is too narrow.
    elastic: usize,
    keep: Keep,
}

/// What remains of a cell that is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// Of a command.
    Start,
    /// Of a path.
    End,
}

const GAP: usize = 2;
const LEAST: usize = 8;

impl Table {
    pub(crate) fn new(head: &[&'static str], elastic: &str, keep: Keep) -> Table {
        let elastic = head.iter().position(|name| *name == elastic).unwrap_or_default();
        Table { head: head.to_vec(), rows: Vec::new(), elastic, keep }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        // A line break or an escape in a cell would break more than its own row.
        self.rows.push(cells.into_iter().map(|cell| inline(&cell).replace('\t', "·")).collect());
    }

    /// Cuts the elastic column so that lines fit `width`; `paint` is for the head only,
    /// so that escapes never count as width.
    pub(crate) fn render(&self, width: Option<usize>, paint: Paint) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|name| name.width()).collect();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(cell.width());
            }
        }
        let total = widths.iter().sum::<usize>() + GAP * (widths.len().saturating_sub(1));
        if let Some(excess) = width.and_then(|width| total.checked_sub(width)).filter(|excess| *excess > 0) {
            let own = &mut widths[self.elastic];
            *own = own.saturating_sub(excess).max(LEAST.min(*own));
        }
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let mut text = paint.bold(&line(&head, &widths, self.keep)) + "\n";
        for row in &self.rows {
            text.push_str(&line(row, &widths, self.keep));
            text.push('\n');
        }
        text
    }
}

fn line(cells: &[String], widths: &[usize], keep: Keep) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let shown = fit(cell, *width, keep);
        let padding = width - shown.width() + GAP;
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.trim_end().to_owned()
}

/// The cell, cut to this width if need be.
pub(crate) fn fit(cell: &str, width: usize, keep: Keep) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut edges = cell.char_indices().map(|(at, _)| at);
    match keep {
        Keep::Start => {
            let to = edges.rev().find(|at| cell[..*at].width() < width);
            format!("{}…", to.map_or("", |at| &cell[..at]))
        }
        Keep::End => {
            let from = edges.find(|at| cell[*at..].width() < width);
            format!("…{}", from.map_or("", |at| &cell[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "CWD", "AGE"], "CWD", Keep::End);
        table.row(vec!["s-1".into(), "/home/someone/src/project".into(), "3m".into()]);
        table.row(vec!["s-22".into(), "/日本".into(), "now".into()]);
        table
    }

    #[test]
    fn no_cell_leaves_its_row_or_moves_the_cursor() {
        for value in trl_testkit::hostile::values() {
            let mut table = Table::new(&["WHO", "WHY"], "WHY", Keep::Start);
            table.row(vec![value.clone(), value.clone()]);
            let shown = table.render(None, Paint(false));
            assert_eq!(shown.lines().count(), 2, "{value:?}");
            assert!(!shown.contains(trl_testkit::hostile::is_unsafe) && !shown.contains('\t'), "{value:?}");
        }
    }

    #[test]
    fn columns_line_up_whatever_the_script() {
        let expected = "ID    CWD                        AGE\n\
                        s-1   /home/someone/src/project  3m\n\
                        s-22  /日本                      now\n";
        assert_eq!(table().render(None, Paint(false)), expected);
    }

    #[test]
    fn the_elastic_column_gives_way() {
        let text = table().render(Some(24), Paint(false));
        assert!(text.lines().all(|line| line.width() <= 24), "{text}");
        assert!(text.contains("…/src/project  3m"), "{text}");
        let narrow = table().render(Some(5), Paint(false));
        assert!(narrow.contains("…project"), "{narrow}");
        assert_eq!(
            (fit("日本語", 4, Keep::Start), fit("日本語", 4, Keep::End)),
            ("日…".into(), "…語".into())
        );
    }

    #[test]
    fn a_cell_cannot_break_the_table() {
        let mut table = Table::new(&["A"], "A", Keep::End);
        table.row(vec!["x\ny\x1b[31m".into()]);
        assert_eq!(table.render(None, Paint(false)), "A\nx·y·[31m\n");
    }
}
