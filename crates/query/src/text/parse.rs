//! Text to filters, orders and aggregates.

use super::tokens::Tokens;
use crate::expression::OPERATIONS_MAX;
use crate::{
    Aggregate, Cast, Comparison, DEPTH_MAX, Error, Expression, Filter, Function, GroupOrder,
    Grouping, Having, Measure, Order, Path, Pattern, Result, Value, field,
};
use quire_model::ordered::Direction;
use sqlparser::tokenizer::Token;
use std::ops::Bound;
use std::str::FromStr;

/// Words that are no field's name without quotes.
pub(super) const RESERVED: [&str; 13] = [
    "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "ILIKE", "ESCAPE", "NULL", "TRUE", "FALSE",
    "WHERE",
];

impl Filter {
    /// Reads the WHERE grammar of SQL: `mark = 'audi' AND price BETWEEN 5000 AND 20000`.
    ///
    /// `=`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `BETWEEN`, `IN`, `LIKE 'prefix%'`, `REGEXP
    /// '[a-c].*'`, `FUZZY(field, 'text', 1, 0)`, `IS NULL`, `IS NOT NULL`, `AND`, `OR`, `NOT`,
    /// `TRUE`, `FALSE`; dotted names, in double quotes where they are no plain words; `a[2]`, the
    /// third element of the array `a`. `<>`, `NOT` and `IS NULL` are complements: a document
    /// without the field matches. `field IS NULL` is so without any value but null; `field = NULL`
    /// where there is a null.
    ///
    /// ```
    /// use quire_query::{Filter, field};
    ///
    /// let filter = Filter::parse("mark = 'audi' AND price < 2e4 AND sold IS NULL")?;
    /// let same = field("mark").eq("audi").and(field("price").lt(20_000));
    /// assert_eq!(filter, same.and(!field("sold").exists()));
    /// let error = Filter::parse("mark = 'audi' AND\n  price LIKE 9").unwrap_err();
    /// assert!(error.to_string().starts_with("line 2, column 14: "));
    /// # Ok::<(), quire_query::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Syntax`], with the place in the text.
    pub fn parse(text: &str) -> Result<Filter> {
        let mut parser = Parser::new(text)?;
        let filter = parser.filter(0)?;
        parser.end("AND, OR or the end")?;
        Ok(filter)
    }
}

impl Order {
    /// Reads an ORDER BY list: `price desc, DATE(added) nulls first`.
    ///
    /// # Errors
    /// [`Error::Syntax`], with the place in the text.
    pub fn parse_list(text: &str) -> Result<Vec<Order>> {
        let mut parser = Parser::new(text)?;
        let mut orders = Vec::new();
        loop {
            orders.push(parser.order()?);
            if !parser.tokens.take(&Token::Comma) {
                break;
            }
        }
        parser.end("ASC, DESC, NULLS, a comma or the end")?;
        Ok(orders)
    }
}

impl Path {
    /// Reads a list of fields, named as in a filter: `mark, at.city, "odd name"`.
    ///
    /// ```
    /// use quire_query::Path;
    ///
    /// let paths = Path::parse_list("at.city, \"odd, name\"")?;
    /// assert_eq!(paths, [Path::new("at.city"), Path::new("odd, name")]);
    /// # Ok::<(), quire_query::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Syntax`], with the place in the text.
    pub fn parse_list(text: &str) -> Result<Vec<Path>> {
        let mut parser = Parser::new(text)?;
        let mut paths = vec![parser.path()?];
        while parser.tokens.take(&Token::Comma) {
            paths.push(parser.path()?);
        }
        parser.end("a comma or the end")?;
        Ok(paths)
    }
}

impl Aggregate {
    /// Reads an aggregate: `avg(price)`, `terms(mark, 10) WHERE price > 0`.
    ///
    /// # Errors
    /// [`Error::Syntax`], with the place in the text.
    pub fn parse(text: &str) -> Result<Aggregate> {
        let mut parser = Parser::new(text)?;
        let aggregate = parser.aggregate(false)?;
        parser.end("WHERE or the end")?;
        Ok(aggregate)
    }
}

struct Parser {
    tokens: Tokens,
}

impl Parser {
    fn new(text: &str) -> Result<Parser> {
        let tokens = Tokens::new(text)?;
        Ok(Parser { tokens })
    }

    fn end(&self, expected: &str) -> Result<()> {
        match self.tokens.peek() {
            None => Ok(()),
            Some(_) => Err(self.tokens.expected(expected)),
        }
    }

    fn filter(&mut self, depth: usize) -> Result<Filter> {
        let mut any = vec![self.and(depth)?];
        while self.tokens.take_word("OR") {
            any.push(self.and(depth)?);
        }
        Ok(single(any).unwrap_or_else(Filter::Or))
    }

    fn and(&mut self, depth: usize) -> Result<Filter> {
        let mut all = vec![self.not(depth)?];
        while self.tokens.take_word("AND") {
            all.push(self.not(depth)?);
        }
        Ok(single(all).unwrap_or_else(Filter::And))
    }

    /// All nesting goes through this function.
    fn not(&mut self, depth: usize) -> Result<Filter> {
        if depth > DEPTH_MAX {
            let what = format!("nested more than {DEPTH_MAX} deep");
            return Err(self.tokens.error(what));
        }
        if self.tokens.take_word("NOT") {
            return Ok(!self.not(depth + 1)?);
        }
        if self.tokens.take(&Token::LParen) {
            let filter = self.filter(depth + 1)?;
            self.sign(&Token::RParen, "AND, OR or a closing bracket")?;
            return Ok(filter);
        }
        if self.tokens.take_word("TRUE") {
            return Ok(Filter::All);
        }
        if self.tokens.take_word("FALSE") {
            return Ok(Filter::none());
        }
        if self.tokens.is_word(0, "RANGE") && self.tokens.peek_at(1) == Some(&Token::LParen) {
            return self.range();
        }
        if let Some(cast) = self.cast() {
            let path = self.cast_path()?;
            return self.cast_test(cast, path);
        }
        if self.tokens.is_word(0, "SLICE") && self.tokens.peek_at(1) == Some(&Token::LParen) {
            return self.slice();
        }
        for (name, ignores_case) in [("FUZZY", false), ("IFUZZY", true)] {
            if self.tokens.is_word(0, name) && self.tokens.peek_at(1) == Some(&Token::LParen) {
                return self.fuzzy(ignores_case);
            }
        }
        let path = self.tested_path()?;
        self.test(path)
    }

    /// The test that follows a path.
    fn test(&mut self, path: Path) -> Result<Filter> {
        type Make = fn(Path, Value) -> Filter;
        let make: Option<Make> = match self.tokens.peek() {
            Some(Token::Eq) => Some(Filter::Eq),
            Some(Token::Neq) => Some(|path, value| !Filter::Eq(path, value)),
            Some(Token::Lt) => Some(|path, value| less(path, Bound::Excluded(value))),
            Some(Token::LtEq) => Some(|path, value| less(path, Bound::Included(value))),
            Some(Token::Gt) => Some(|path, value| more(path, Bound::Excluded(value))),
            Some(Token::GtEq) => Some(|path, value| more(path, Bound::Included(value))),
            _ => None,
        };
        if let Some(make) = make {
            self.tokens.advance();
            return Ok(make(path, self.value()?));
        }
        if self.tokens.take_word("IS") {
            let is_there = self.tokens.take_word("NOT");
            self.word("NULL")?;
            let exists = Filter::Exists(path);
            return Ok(if is_there { exists } else { !exists });
        }
        let is_not = self.tokens.take_word("NOT");
        let filter = if self.tokens.take_word("BETWEEN") {
            let lower = Bound::Included(self.value()?);
            self.word("AND")?;
            Filter::Range(path, lower, Bound::Included(self.value()?))
        } else if self.tokens.take_word("IN") {
            Filter::In(path, self.list()?)
        } else if self.tokens.take_word("LIKE") {
            let pattern = self.pattern()?;
            match pattern.is_prefix() {
                Some(true) => Filter::Prefix(path, pattern.beginning()),
                _ => Filter::Like(path, pattern),
            }
        } else if self.tokens.take_word("ILIKE") {
            Filter::Like(path, self.pattern()?.ignoring_case())
        } else if self.tokens.take_word("REGEXP") {
            Filter::Like(path, self.regexp()?)
        } else if self.tokens.take_word("IREGEXP") {
            Filter::Like(path, self.regexp()?.ignoring_case())
        } else {
            let tests = "=, <>, <, <=, >, >=, BETWEEN, IN, LIKE, ILIKE, REGEXP, IREGEXP or IS";
            return Err(self.tokens.expected(tests));
        };
        Ok(if is_not { !filter } else { filter })
    }

    fn range(&mut self) -> Result<Filter> {
        self.tokens.advance();
        self.sign(&Token::LParen, "an opening bracket")?;
        let cast = self.cast();
        let path = match cast {
            Some(_) => self.cast_path()?,
            None => self.tested_path()?,
        };
        let lower = self.bound(">", ">=")?;
        let upper = self.bound("<", "<=")?;
        self.sign(&Token::RParen, "a closing bracket")?;
        Ok(match cast {
            Some(cast) => Filter::Cast(cast, path, lower, upper),
            None => Filter::Range(path, lower, upper),
        })
    }

    fn slice(&mut self) -> Result<Filter> {
        self.tokens.advance();
        self.sign(&Token::LParen, "an opening bracket")?;
        let path = self.tested_path()?;
        let number = self.argument(|_| true)?;
        let max = self.argument(|_| true)?;
        self.sign(&Token::RParen, "a closing bracket")?;
        Ok(Filter::Slice { path, number, max })
    }

    /// A field, with how it is compared, its direction, and where null is.
    fn order(&mut self) -> Result<Order> {
        let cast = self.cast();
        let path = match cast {
            Some(_) => self.cast_path()?,
            None => self.path()?,
        };
        let path = field(path.as_str());
        let mut order = match self.tokens.take_word("DESC") {
            true => path.descending(),
            false => {
                self.tokens.take_word("ASC");
                path.ascending()
            }
        };
        if let Some(cast) = cast {
            order = order.cast(cast);
        }
        if !self.tokens.take_word("NULLS") {
            return Ok(order);
        }
        if self.tokens.take_word("FIRST") {
            return Ok(order.nulls_first());
        }
        match self.tokens.take_word("LAST") {
            true => Ok(order.nulls_last()),
            false => Err(self.tokens.expected("FIRST or LAST")),
        }
    }

    /// The cast whose function comes next, as in `NUMBER(field)`.
    fn cast(&self) -> Option<Cast> {
        let is_function = self.tokens.peek_at(1) == Some(&Token::LParen);
        let mut casts = Cast::ALL.into_iter();
        casts.find(|cast| is_function && self.tokens.is_word(0, cast.name()))
    }

    /// The field of a cast.
    fn cast_path(&mut self) -> Result<Path> {
        self.tokens.advance();
        self.sign(&Token::LParen, "an opening bracket")?;
        let path = self.tested_path()?;
        self.sign(&Token::RParen, "a closing bracket")?;
        Ok(path)
    }

    /// The test that follows a cast.
    fn cast_test(&mut self, cast: Cast, path: Path) -> Result<Filter> {
        use Bound::{Excluded, Included, Unbounded};
        let equal =
            |path, v: Value| Filter::Cast(cast.clone(), path, Included(v.clone()), Included(v));
        if let Ok(comparison) = self.comparison() {
            let value = self.value()?;
            return Ok(match comparison {
                Comparison::Equal => equal(path, value),
                Comparison::NotEqual => !equal(path, value),
                Comparison::Less => Filter::Cast(cast, path, Unbounded, Excluded(value)),
                Comparison::LessOrEqual => Filter::Cast(cast, path, Unbounded, Included(value)),
                Comparison::Greater => Filter::Cast(cast, path, Excluded(value), Unbounded),
                Comparison::GreaterOrEqual => Filter::Cast(cast, path, Included(value), Unbounded),
            });
        }
        if self.tokens.take_word("IS") {
            let is_there = self.tokens.take_word("NOT");
            self.word("NULL")?;
            let exists = Filter::Cast(cast, path, Unbounded, Unbounded);
            return Ok(if is_there { exists } else { !exists });
        }
        let is_not = self.tokens.take_word("NOT");
        let filter = if self.tokens.take_word("BETWEEN") {
            let lower = Included(self.value()?);
            self.word("AND")?;
            Filter::Cast(cast, path, lower, Included(self.value()?))
        } else if self.tokens.take_word("IN") {
            let values = self.list()?.into_iter();
            Filter::Or(values.map(|value| equal(path.clone(), value)).collect())
        } else {
            let tests = "=, <>, <, <=, >, >=, BETWEEN, IN or IS";
            return Err(self.tokens.expected(tests));
        };
        Ok(if is_not { !filter } else { filter })
    }

    fn bound(&mut self, excluding: &str, including: &str) -> Result<Bound<Value>> {
        self.sign(&Token::Comma, "a comma")?;
        let expected = || format!("'{excluding}' or '{including}'");
        let bound: fn(Value) -> Bound<Value> = match self.tokens.peek() {
            Some(Token::SingleQuotedString(sign)) if sign == excluding => Bound::Excluded,
            Some(Token::SingleQuotedString(sign)) if sign == including => Bound::Included,
            _ => return Err(self.tokens.expected(&expected())),
        };
        self.tokens.advance();
        self.sign(&Token::Comma, "a comma")?;
        Ok(bound(self.value()?))
    }

    fn list(&mut self) -> Result<Vec<Value>> {
        self.sign(&Token::LParen, "an opening bracket")?;
        let mut values = Vec::new();
        if self.tokens.take(&Token::RParen) {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if self.tokens.take(&Token::RParen) {
                return Ok(values);
            }
            self.sign(&Token::Comma, "a comma or a closing bracket")?;
        }
    }

    /// The pattern of LIKE.
    fn pattern(&mut self) -> Result<Pattern> {
        let at = self.tokens.error("");
        let pattern = self.quoted("a pattern in single quotes")?;
        let escape = match self.tokens.take_word("ESCAPE") {
            true => Some(self.escape()?),
            false => None,
        };
        Pattern::like(&pattern, escape).map_err(|error| placed(at, error))
    }

    fn regexp(&mut self) -> Result<Pattern> {
        let at = self.tokens.error("");
        let pattern = self.quoted("a regular expression in single quotes")?;
        Pattern::regexp(&pattern).map_err(|error| placed(at, error))
    }

    /// `(path, 'text', edits, letters that are the same)`.
    fn fuzzy(&mut self, ignores_case: bool) -> Result<Filter> {
        self.tokens.advance();
        self.sign(&Token::LParen, "an opening bracket")?;
        let path = self.tested_path()?;
        self.sign(&Token::Comma, "a comma")?;
        let at = self.tokens.error("");
        let text = self.quoted("a text in single quotes")?;
        let (edits, prefix) = (self.argument(|_| true)?, self.argument(|_| true)?);
        self.sign(&Token::RParen, "a closing bracket")?;
        let pattern = Pattern::fuzzy(&text, edits, prefix).map_err(|error| placed(at, error))?;
        Ok(Filter::Like(
            path,
            match ignores_case {
                true => pattern.ignoring_case(),
                false => pattern,
            },
        ))
    }

    /// A text in single quotes.
    fn quoted(&mut self, expected: &str) -> Result<String> {
        let text = match self.tokens.peek() {
            Some(Token::SingleQuotedString(text)) => text.clone(),
            _ => return Err(self.tokens.expected(expected)),
        };
        self.tokens.advance();
        Ok(text)
    }

    fn escape(&mut self) -> Result<char> {
        let mut letter = None;
        if let Some(Token::SingleQuotedString(text)) = self.tokens.peek() {
            let mut letters = text.chars();
            letter = letters.next().filter(|_| letters.as_str().is_empty());
        }
        let letter = letter.ok_or_else(|| self.tokens.expected("one letter in single quotes"))?;
        self.tokens.advance();
        Ok(letter)
    }

    fn value(&mut self) -> Result<Value> {
        const VALUE: &str = "a number, a 'string', TRUE, FALSE or NULL";
        for (word, value) in [("TRUE", Some(true)), ("FALSE", Some(false)), ("NULL", None)] {
            if self.tokens.take_word(word) {
                return Ok(value.map_or(Value::null(), Value::from));
            }
        }
        let negative = self.tokens.take(&Token::Minus);
        let value = match self.tokens.peek() {
            Some(Token::Number(digits, false)) => number_of(digits, negative),
            Some(Token::SingleQuotedString(text)) if !negative => Some(Value::from(text.as_str())),
            Some(Token::Word(word)) if word.quote_style == Some('"') => {
                let what = format!("{word} is a field's name; a string stands in 'single quotes'");
                return Err(self.tokens.error(what));
            }
            _ => return Err(self.tokens.expected(VALUE)),
        };
        let value = value.ok_or_else(|| self.tokens.expected(VALUE))?;
        self.tokens.advance();
        Ok(value)
    }

    /// A field.
    fn path(&mut self) -> Result<Path> {
        let path = self.tested_path()?;
        match path.check() {
            Err(Error::Invalid(what)) => Err(self.tokens.error(what)),
            checked => checked.map(|()| path),
        }
    }

    /// A field, or elements of the arrays in it.
    fn tested_path(&mut self) -> Result<Path> {
        let mut path = Path::new(&self.part(true)?);
        loop {
            while self.tokens.take(&Token::LBracket) {
                path = path.element(self.position()?);
                self.sign(&Token::RBracket, "a closing square bracket")?;
            }
            if let Err(Error::Invalid(what)) = path.check_in_filter() {
                return Err(self.tokens.error(what));
            }
            if !self.tokens.take(&Token::Period) {
                return Ok(path);
            }
            path = path.field(&self.part(false)?);
        }
    }

    /// One of the names of a field.
    fn part(&mut self, is_first: bool) -> Result<String> {
        let Some(Token::Word(word)) = self.tokens.peek() else {
            return Err(self.tokens.expected("a field"));
        };
        let is_reserved = word.quote_style.is_none()
            && is_first
            && RESERVED.contains(&word.value.to_ascii_uppercase().as_str());
        if is_reserved {
            let what = "a field (in \"double quotes\" if it is called so)";
            return Err(self.tokens.expected(what));
        }
        if let Err(Error::Invalid(what)) = Path::new(&word.value).check() {
            return Err(self.tokens.error(what));
        }
        let name = word.value.clone();
        self.tokens.advance();
        Ok(name)
    }

    /// The position of an element.
    fn position(&mut self) -> Result<usize> {
        let position = match self.tokens.peek() {
            Some(Token::Number(digits, false)) => digits.parse().ok(),
            _ => None,
        };
        let expected = "the position of an element, from 0";
        let position = position.ok_or_else(|| self.tokens.expected(expected))?;
        self.tokens.advance();
        Ok(position)
    }

    /// An aggregate; an inner one is a measure of groups.
    fn aggregate(&mut self, is_inner: bool) -> Result<Aggregate> {
        let what = self.measure(is_inner)?;
        let filter = match self.tokens.take_word("WHERE") {
            true => Some(self.filter(0)?),
            false => None,
        };
        Ok(Aggregate { what, filter })
    }

    /// What stands between the brackets of GROUP.
    fn grouping(&mut self) -> Result<Grouping> {
        let mut grouping = Grouping::default();
        loop {
            grouping.by.push(self.path()?);
            if !self.tokens.take(&Token::Comma) {
                break;
            }
        }
        if self.tokens.take(&Token::Colon) {
            loop {
                let measure = self.aggregate(true)?;
                let name = match self.tokens.take_word("AS") {
                    true => self.name()?,
                    false => measure.to_string(),
                };
                grouping.measures.push((name, measure));
                if !self.tokens.take(&Token::Comma) {
                    break;
                }
            }
        }
        if self.tokens.take_word("HAVING") {
            loop {
                let measure = self.name()?;
                let comparison = self.comparison()?;
                let value = self.value()?;
                grouping.having.push(Having {
                    measure,
                    comparison,
                    value,
                });
                if !self.tokens.take_word("AND") {
                    break;
                }
            }
        }
        if self.tokens.take_word("ORDER") {
            self.word("BY")?;
            loop {
                let name = self.name()?;
                let direction = match self.tokens.take_word("DESC") {
                    true => Direction::Descending,
                    false => {
                        self.tokens.take_word("ASC");
                        Direction::Ascending
                    }
                };
                grouping.order.push(GroupOrder { name, direction });
                if !self.tokens.take(&Token::Comma) {
                    break;
                }
            }
        }
        if self.tokens.take_word("LIMIT") {
            grouping.limit = Some(self.number(|_| true)?);
        }
        Ok(grouping)
    }

    /// A name of a measure or of a field: a word, a path, or the text of a measure.
    fn name(&mut self) -> Result<String> {
        match self.tokens.peek_at(1) {
            Some(Token::LParen) => Ok(Aggregate::from(self.measure(true)?).to_string()),
            Some(Token::Period) => Ok(self.path()?.to_string()),
            _ => match self.tokens.peek() {
                Some(Token::Word(word)) => {
                    let name = word.value.clone();
                    self.tokens.advance();
                    Ok(name)
                }
                _ => Err(self.tokens.expected("the name of a measure or of a field")),
            },
        }
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let comparison = match self.tokens.peek() {
            Some(Token::Eq) => Comparison::Equal,
            Some(Token::Neq) => Comparison::NotEqual,
            Some(Token::Lt) => Comparison::Less,
            Some(Token::LtEq) => Comparison::LessOrEqual,
            Some(Token::Gt) => Comparison::Greater,
            Some(Token::GtEq) => Comparison::GreaterOrEqual,
            _ => return Err(self.tokens.expected("=, <>, <, <=, > or >=")),
        };
        self.tokens.advance();
        Ok(comparison)
    }

    fn measure(&mut self, is_inner: bool) -> Result<Measure> {
        const MEASURES: &str = "count, min, max, sum, avg, distinct, approx_distinct, percentile, \
                                terms, histogram or group";
        let name = match self.tokens.peek() {
            Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
            _ => return Err(self.tokens.expected(MEASURES)),
        };
        let wrong = self.tokens.expected(MEASURES);
        self.tokens.advance();
        self.sign(&Token::LParen, "an opening bracket")?;
        let measure = match name.as_str() {
            "count" => Measure::Count,
            "min" => self.function(Function::Min, Measure::Min)?,
            "max" => self.function(Function::Max, Measure::Max)?,
            "sum" => self.function(Function::Sum, Measure::Sum)?,
            "avg" => self.function(Function::Avg, Measure::Avg)?,
            "distinct" => Measure::Distinct(self.path()?),
            "approx_distinct" => Measure::ApproximateDistinct(self.path()?),
            "percentile" => {
                let path = self.path()?;
                let percent = self.argument(|percent| (0.0..=100.0).contains(percent))?;
                Measure::Percentile { path, percent }
            }
            "terms" => {
                let path = self.path()?;
                let limit = self.argument(|_| true)?;
                Measure::Terms { path, limit }
            }
            "histogram" => {
                let path = self.path()?;
                let interval = self.argument(|width: &f64| width.is_finite() && *width > 0.0)?;
                Measure::Histogram { path, interval }
            }
            "group" if !is_inner => Measure::Group(Box::new(self.grouping()?)),
            _ => return Err(wrong),
        };
        self.sign(&Token::RParen, "a closing bracket")?;
        Ok(measure)
    }

    /// A function of a field, or of arithmetic.
    fn function(&mut self, function: Function, of_field: fn(Path) -> Measure) -> Result<Measure> {
        let mut left = OPERATIONS_MAX;
        Ok(match self.expression(0, &mut left)? {
            Expression::Field(path) => of_field(path),
            expression => Measure::Of(function, expression),
        })
    }

    /// An expression of at most `left` operations.
    fn expression(&mut self, depth: usize, left: &mut usize) -> Result<Expression> {
        let mut all = self.product(depth, left)?;
        loop {
            if self.operator(&Token::Plus, left)? {
                all = all + self.product(depth, left)?;
            } else if self.operator(&Token::Minus, left)? {
                all = all - self.product(depth, left)?;
            } else {
                return Ok(all);
            }
        }
    }

    fn product(&mut self, depth: usize, left: &mut usize) -> Result<Expression> {
        let mut all = self.operand(depth, left)?;
        loop {
            if self.operator(&Token::Mul, left)? {
                all = all * self.operand(depth, left)?;
            } else if self.operator(&Token::Div, left)? {
                all = all / self.operand(depth, left)?;
            } else {
                return Ok(all);
            }
        }
    }

    /// Goes past the next token if it is this operator.
    fn operator(&mut self, operator: &Token, left: &mut usize) -> Result<bool> {
        if self.tokens.peek() != Some(operator) {
            return Ok(false);
        }
        let Some(fewer) = left.checked_sub(1) else {
            let what = format!("more than {OPERATIONS_MAX} operations in an expression");
            return Err(self.tokens.error(what));
        };
        *left = fewer;
        self.tokens.advance();
        Ok(true)
    }

    /// A field, a number, or an expression in brackets.
    fn operand(&mut self, depth: usize, left: &mut usize) -> Result<Expression> {
        if depth > DEPTH_MAX {
            let what = format!("more than {DEPTH_MAX} brackets in each other");
            return Err(self.tokens.error(what));
        }
        if self.tokens.take(&Token::LParen) {
            let inner = self.expression(depth + 1, left)?;
            self.sign(&Token::RParen, "a closing bracket")?;
            return Ok(inner);
        }
        match self.tokens.peek() {
            Some(Token::Number(..) | Token::Minus | Token::Plus) => {
                Ok(Expression::Number(self.value()?))
            }
            _ => Ok(Expression::Field(self.path()?)),
        }
    }

    /// A comma and a number that is right.
    fn argument<T: FromStr>(&mut self, is_right: fn(&T) -> bool) -> Result<T> {
        self.sign(&Token::Comma, "a comma")?;
        self.number(is_right)
    }

    /// A number that is right.
    fn number<T: FromStr>(&mut self, is_right: fn(&T) -> bool) -> Result<T> {
        let argument = match self.tokens.peek() {
            Some(Token::Number(digits, false)) => digits.parse().ok().filter(is_right),
            _ => None,
        };
        let argument = argument.ok_or_else(|| self.tokens.expected("a number that it can be"))?;
        self.tokens.advance();
        Ok(argument)
    }

    fn sign(&mut self, sign: &Token, expected: &str) -> Result<()> {
        match self.tokens.take(sign) {
            true => Ok(()),
            false => Err(self.tokens.expected(expected)),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        match self.tokens.take_word(word) {
            true => Ok(()),
            false => Err(self.tokens.expected(word)),
        }
    }
}

/// An error at the place that another one has.
fn placed(at: Error, error: Error) -> Error {
    match at {
        Error::Syntax { line, column, .. } => Error::Syntax {
            line,
            column,
            what: error.to_string(),
        },
        _ => error,
    }
}

/// The only filter, or all of them.
fn single(mut filters: Vec<Filter>) -> std::result::Result<Filter, Vec<Filter>> {
    match (filters.pop(), filters.is_empty()) {
        (Some(only), true) => return Ok(only),
        (last, _) => filters.extend(last),
    }
    Err(filters)
}

fn less(path: Path, upper: Bound<Value>) -> Filter {
    Filter::Range(path, Bound::Unbounded, upper)
}

fn more(path: Path, lower: Bound<Value>) -> Filter {
    Filter::Range(path, lower, Bound::Unbounded)
}

/// A number: an integer where it is one of 64 bits, else the nearest float.
fn number_of(digits: &str, negative: bool) -> Option<Value> {
    let signed = match negative {
        true => &format!("-{digits}"),
        false => digits,
    };
    let integer = signed.parse::<i64>().map(Value::from);
    let integer = integer.or_else(|_| signed.parse::<u64>().map(Value::from));
    integer
        .or_else(|_| signed.parse::<f64>().map(Value::from))
        .ok()
}
