"""Reading and analysis of Proton's files: trees and traces, their metrics and derived rates."""
